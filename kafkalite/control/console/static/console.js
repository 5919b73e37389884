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

  document.addEventListener("htmx:sendError", () => showState("disconnected"));
  document.addEventListener("htmx:responseError", (event) => {
    // The page then says that its subject is gone, or asks for the token.
    if ([401, 404].includes(event.detail.xhr.status)) window.location.reload();
    else showState("disconnected");
  });

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
  // A stream says that something changed. Browsers open few connections to a host, so that a page
  // that is not visible has no stream, and is loaded again when it is visible.
  const retryMs = 10000;
  const address = byId("main").dataset.changes;
  let stream = null;
  let retryTimer = 0;
  let isFull = false;
  let wasLive = false;

  function change() {
    isOutdated = true;
    refresh();
  }

  function connect() {
    disconnect();
    stream = new EventSource(address);
    stream.addEventListener("open", () => {
      isFull = false;
      showState(isPaused ? "paused" : "live");
      if (wasLive) change(); // changes may have been missed
      wasLive = true;
    });
    stream.addEventListener("change", change);
    stream.addEventListener("full", (event) => {
      isFull = true;
      showState("full");
      liveState.textContent = `not live: ${event.data}`;
    });
    stream.addEventListener("error", () => {
      if (!isFull) showState("disconnected");
      if (stream.readyState === EventSource.CLOSED) retryTimer = setTimeout(connect, retryMs);
    });
  }

  function disconnect() {
    clearTimeout(retryTimer);
    if (stream) stream.close();
    stream = null;
  }

  function connectIfVisible() {
    if (!address) return;
    if (document.hidden) disconnect();
    else connect();
  }

  document.addEventListener("visibilitychange", connectIfVisible);
  window.addEventListener("pagehide", disconnect);
  window.addEventListener("pageshow", connectIfVisible);

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
    if (stream && stream.readyState === EventSource.OPEN && !isPaused) showState("live");
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
