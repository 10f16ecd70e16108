// Not a module, so that it runs before the first paint: a dark page must not flash white.
(function () {
  try {
    const theme = localStorage.getItem("regard.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is forbidden: the system's theme is used.
  }
})();
