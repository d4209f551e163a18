// Where the keyboard goes on when a page is changed without being loaded anew.

/** The content of the page; a heading is reached from there with the next key. */
export function focusMain(): void {
  const main = document.getElementById("main");
  if (!main) return;
  main.tabIndex = -1;
  main.focus({ preventScroll: true });
}

/** Nothing has the focus, or the link to the page that is now shown: a field that took it is left alone. */
const free = (): boolean => !document.activeElement || document.activeElement === document.body || document.activeElement.closest("header nav") !== null;

/** Goes to the content of a page once it is there, as its code may have to be loaded; returns what ends that. */
export function focusWhenShown(): () => void {
  const look = (): boolean => {
    if (!document.querySelector("main#main:not(:has([aria-busy=true]))")) return false;
    if (free()) focusMain();
    return true;
  };
  if (look()) return () => {};
  const observer = new MutationObserver(() => look() && observer.disconnect());
  observer.observe(document.body, { childList: true, subtree: true });
  return () => observer.disconnect();
}
