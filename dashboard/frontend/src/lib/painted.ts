// What can wait until the reader sees something.

/** Resolves once what is in the document has been drawn; in a tab that nobody looks at, when somebody does. */
export const painted = (): Promise<void> => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
