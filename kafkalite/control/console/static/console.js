// The theme, the state of the live connection, and what must survive an update of the page.
"use strict";

(() => {
  const byId = (id) => document.getElementById(id);
  const themes = ["auto", "light", "dark"];
  const themeButton = byId("theme");
  const pauseButton = byId("pause");
  const liveState = byId("live-state");
  let isPaused = false;
  let isOutdated = false;

  function currentTheme() {
    return document.documentElement.dataset.theme || "auto";
  }

  function showTheme() {
    themeButton.textContent = `Theme: ${currentTheme()}`;
  }

  themeButton.hidden = false;
  showTheme();
  themeButton.addEventListener("click", () => {
    const next = themes[(themes.indexOf(currentTheme()) + 1) % themes.length];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem("kafkalite-theme", next);
    } catch {
      // The browser stores nothing.
    }
    showTheme();
  });

  function showState(state) {
    if (!liveState) return;
    liveState.dataset.state = state;
    liveState.textContent = state;
  }

  document.addEventListener("htmx:sseOpen", () => showState(isPaused ? "paused" : "live"));
  document.addEventListener("htmx:sseError", () => showState("disconnected"));
  document.addEventListener("htmx:sendError", () => showState("disconnected"));
  document.addEventListener("htmx:responseError", () => showState("disconnected"));

  function refresh() {
    const live = byId("live");
    if (isOutdated && live) {
      isOutdated = false;
      window.htmx.trigger(live, "refresh");
    }
  }

  if (pauseButton) {
    pauseButton.hidden = false;
    pauseButton.addEventListener("click", () => {
      isPaused = !isPaused;
      pauseButton.setAttribute("aria-pressed", String(isPaused));
      pauseButton.textContent = isPaused ? "Resume" : "Pause";
      showState(isPaused ? "paused" : "live");
      if (!isPaused) refresh();
    });
  }
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !isPaused) refresh();
  });

  function mustNotChange() {
    const selection = document.getSelection();
    const isSelecting = selection && !selection.isCollapsed;
    const scrub = byId("scrub");
    return isPaused || document.hidden || isSelecting || (scrub && scrub.matches(":active"));
  }

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.elt.id !== "live" || !mustNotChange()) return;
    isOutdated = true;
    event.preventDefault();
  });

  // An update replaces the elements. Those that were open, focused or scrolled remain so.
  let open = [];
  let focused = "";
  let scrolled = [];
  document.addEventListener("htmx:beforeSwap", () => {
    const live = byId("live");
    if (!live) return;
    open = [...live.querySelectorAll("details[open][id]")].map((each) => each.id);
    focused = live.contains(document.activeElement) ? document.activeElement.id : "";
    scrolled = [...live.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const id of open) {
      const found = byId(id);
      if (found) found.open = true;
    }
    if (focused && byId(focused)) byId(focused).focus({ preventScroll: true });
    [...document.querySelectorAll("#live .scroll")].forEach((each, index) => {
      if (scrolled[index]) each.scrollLeft = scrolled[index];
    });
  });

  // The newest events of a time line are at its end.
  for (const each of document.querySelectorAll(".timeline .scroll")) {
    each.scrollLeft = each.scrollWidth;
  }
})();
