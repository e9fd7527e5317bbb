// The switch between the light theme, the dark theme and that of the system.

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function themeSwitch(redraw) {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const wear = (theme) => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    $("theme-name").textContent = theme || "system";
    redraw();
  };
  // the first click shows the theme that the system does not have, so that something changes
  const themes = () => (system.matches ? ["", "light", "dark"] : ["", "dark", "light"]);
  $("theme").addEventListener("click", () => wear(themes()[(themes().indexOf(root.dataset.theme || "") + 1) % 3]));
  system.addEventListener("change", redraw);
  return wear;
}
