(function () {
  "use strict";
  var root = document.documentElement;

  // --- light, dark, or what the system says
  var button = document.querySelector(".theme");
  var themes = ["auto", "light", "dark"];
  function remembered() {
    try { return localStorage.getItem("sundog-theme"); } catch (error) { return null; } // a page from a file may have no storage
  }
  function remember(theme) {
    try { localStorage.setItem("sundog-theme", theme); } catch (error) { return; }
  }
  function show(theme) {
    root.dataset.theme = theme;
    button.textContent = "Theme: " + theme;
    button.setAttribute("aria-label", "Theme: " + theme + ". Press to change.");
  }
  var theme = remembered();
  show(themes.indexOf(theme) < 0 ? "auto" : theme);
  button.hidden = false;
  button.addEventListener("click", function () {
    var next = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
    show(next);
    remember(next);
  });

  // --- what a bar stands for, on hover and on focus
  var tip = document.querySelector(".tip");
  function place(bar) {
    tip.textContent = bar.getAttribute("aria-label");
    tip.hidden = false;
    var at = bar.getBoundingClientRect();
    var size = tip.getBoundingClientRect();
    var left = Math.min(Math.max(at.left + at.width / 2 - size.width / 2, 8), root.clientWidth - size.width - 8);
    var above = at.top - size.height - 8;
    tip.style.left = Math.max(left, 8) + "px";
    tip.style.top = (above > 8 ? above : at.bottom + 8) + "px";
  }
  function hide() { tip.hidden = true; }
  window.addEventListener("scroll", function () { // moving the focus scrolls too: then the tip goes along
    var bar = document.activeElement && document.activeElement.closest("[data-bars] [role=listitem]");
    if (bar && !tip.hidden) { place(bar); } else { hide(); }
  }, { passive: true });
  document.addEventListener("keydown", function (event) { if (event.key === "Escape") { hide(); } });

  // --- each picture is one stop of the tab key; arrows walk inside it
  var moves = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
  document.querySelectorAll("[data-bars]").forEach(function (picture) {
    var bars = Array.prototype.slice.call(picture.querySelectorAll("[role=listitem]"));
    function barOf(event) { return event.target.closest("[role=listitem]"); }
    bars.forEach(function (bar) {
      var title = bar.querySelector("title");
      if (title) { title.remove(); } // ours comes at once and by keyboard too
    });
    picture.addEventListener("mouseover", function (event) { var bar = barOf(event); if (bar) { place(bar); } });
    picture.addEventListener("mouseout", hide);
    picture.addEventListener("focusin", function (event) { var bar = barOf(event); if (bar) { place(bar); } });
    picture.addEventListener("focusout", hide);
    picture.addEventListener("keydown", function (event) {
      var bar = barOf(event);
      if (!bar || !(event.key in moves)) { return; }
      event.preventDefault();
      var to = bars[Math.min(Math.max(bars.indexOf(bar) + moves[event.key], 0), bars.length - 1)];
      bar.setAttribute("tabindex", "-1");
      to.setAttribute("tabindex", "0");
      to.focus({ preventScroll: false });
      place(to);
    });
  });
})();
