// Not a module, so that it runs before the first paint: a dark page must not flash white.
(function () {
  try {
    const kept = localStorage.getItem("regard.theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {
    // A browser that keeps nothing gets the system's theme.
  }
})();
