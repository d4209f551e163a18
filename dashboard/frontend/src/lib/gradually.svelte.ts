// Long lists: what fills the first screen at once, the rest a piece at a time, so that neither the first
// picture nor a click waits for a thousand rows.

import { onMount } from "svelte";
import { painted } from "./painted";

const PAUSE = 30;

/** Called while a component is made. How many to show by now: `first`, growing by `step` beyond `most()`. */
export function gradually(first: number, step: number, most: () => number): { readonly shown: number } {
  let shown = $state(first);
  onMount(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let gone = false;
    const more = (): void => {
      if (gone) return;
      shown = shown >= most() ? Infinity : shown + step;
      if (shown !== Infinity) timer = setTimeout(more, PAUSE);
    };
    void painted().then(more);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  });
  return {
    get shown() {
      return shown;
    },
  };
}
