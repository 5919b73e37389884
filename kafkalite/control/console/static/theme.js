// Applies the chosen theme before the page is drawn.
"use strict";
try {
  const theme = localStorage.getItem("kafkalite-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // The browser stores nothing.
}
