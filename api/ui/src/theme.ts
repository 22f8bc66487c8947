// Light or dark: as the person chose, or as the system is.

export const THEME = "hearth-theme";
/** Event of the window. */
export const THEME_CHANGE = "themechange";
export const THEMES = ["system", "light", "dark"] as const;
export const darkSystem = matchMedia("(prefers-color-scheme: dark)");

export const chosenTheme = (): string => localStorage.getItem(THEME) ?? "system";

export function applyTheme(): void {
  const theme = chosenTheme();
  const isDark = theme === "system" ? darkSystem.matches : theme === "dark";
  document.documentElement.dataset["theme"] = isDark ? "dark" : "light";
  // Canvases read their colours again.
  dispatchEvent(new Event(THEME_CHANGE));
}
