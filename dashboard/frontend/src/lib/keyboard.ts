// Keys that work on every page. Typing into a field is left alone, and so are dialogs.

export interface Keys {
  palette(): void;
  help(): void;
  pause(): void;
  theme(): void;
  kiosk(): void;
  go(letter: string): void;
}

const SEQUENCE = 1_200;

export function keyboard(keys: Keys): (event: KeyboardEvent) => void {
  let prefixAt = -Infinity;
  return (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (!document.querySelector("dialog[open]")) keys.palette();
      return;
    }
    // Not `event.target`: of what is typed into the editor that is the element which holds its shadow root.
    const target = event.composedPath()[0] as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    // The focus stays in a dialog that has just been closed until the next frame: that is not typing.
    const typing = target.closest?.("input, textarea, select, [contenteditable], dialog[open]");
    if (typing && !target.closest("dialog:not([open])")) return;
    if (event.timeStamp - prefixAt < SEQUENCE) {
      prefixAt = -Infinity;
      keys.go(event.key);
      return;
    }
    if (event.key === "g") prefixAt = event.timeStamp;
    else if (event.key === "?") keys.help();
    else if (event.key === "p") keys.pause();
    else if (event.key === "t") keys.theme();
    else if (event.key === "k") keys.kiosk();
    else if (event.key === "/") {
      const field = document.querySelector<HTMLInputElement>("[data-filter]");
      if (!field) return;
      event.preventDefault();
      field.select();
    } else return;
  };
}
