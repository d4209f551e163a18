// Light, dark or as the system says; kept in this browser. The server sends no theme, so nothing flashes:
// the attribute is set before the first paint by this module, which main.ts imports first.

export type Theme = "system" | "light" | "dark";
const KEY = "resurge.theme";

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

class ThemeChoice {
  choice = $state<Theme>(stored());
  private readonly system = matchMedia("(prefers-color-scheme: dark)");
  private systemDark = $state(this.system.matches);
  dark = $derived(this.choice === "dark" || (this.choice === "system" && this.systemDark));

  constructor() {
    this.system.addEventListener("change", (event) => {
      this.systemDark = event.matches;
      this.apply();
    });
    this.apply();
  }

  set(choice: Theme): void {
    this.choice = choice;
    try {
      if (choice === "system") localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, choice);
    } catch {
      // Private windows may refuse; the choice then lasts until the page is closed.
    }
    this.apply();
  }

  next(): void {
    this.set(this.choice === "system" ? "light" : this.choice === "light" ? "dark" : "system");
  }

  private apply(): void {
    document.documentElement.dataset["theme"] = this.dark ? "dark" : "light";
  }
}

export const theme = new ThemeChoice();
