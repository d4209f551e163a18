// Work that can wait until the page is visible.

/** Resolves once the document has been drawn; in a hidden tab, when it becomes visible. */
export const painted = (): Promise<void> => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
