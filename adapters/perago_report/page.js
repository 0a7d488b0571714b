"use strict";
// Shows one step at a time. The address names the step, so that a step can be shared; everything shown is in the page.
(() => {
  const links = [...document.querySelectorAll(".step > a")];
  const scenes = [...document.querySelectorAll(".scene")];
  const slider = document.querySelector(".controls input");
  const status = document.querySelector("[role=status]");
  const stage = document.querySelector(".stage");
  const buttons = document.querySelectorAll(".controls button");
  const wide = matchMedia("(min-width: 60rem)");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const opens = Number(document.body.dataset.opens);
  if (!scenes.length) return;
  let now = 0;
  document.documentElement.classList.add("stepping");

  const bounded = (step) => Math.min(Math.max(step, 1), scenes.length);
  const named = () => {
    const found = /^#step-(\d+)$/.exec(location.hash);
    return found ? bounded(Number(found[1])) : 0;
  };

  // The branch is seen moving: its flag starts where it was a step ago.
  const slide = (from, to) => {
    const [old, flag] = [from, to].map((scene) => scene.querySelector(".flag"));
    if (!old || !flag || still.matches) return;
    const by = ["x", "y"].map((axis) => Number(old.dataset[axis]) - Number(flag.dataset[axis]));
    if (!by[0] && !by[1]) return;
    flag.animate(
      [{ transform: `translate(${by[0]}px, ${by[1]}px)` }, { transform: "none" }],
      { duration: 420, easing: "cubic-bezier(.2, .7, .2, 1)" },
    );
  };

  const show = (step, { address = true, reveal = true } = {}) => {
    const next = bounded(step);
    if (next === now) return;
    const before = scenes[now - 1];
    now = next;
    scenes.forEach((scene, index) => scene.toggleAttribute("data-hidden", index !== now - 1));
    links.forEach((link, index) => {
      if (index === now - 1) link.setAttribute("aria-current", "step");
      else link.removeAttribute("aria-current");
    });
    if (before) slide(before, scenes[now - 1]);
    // A long history has more commits than fit: the branch's flag is the one to see.
    const flag = scenes[now - 1].querySelector(".graph.wide .flag");
    if (flag) scenes[now - 1].querySelector("figure").scrollLeft = Number(flag.dataset.x) - 240;
    slider.value = String(now);
    slider.setAttribute("aria-valuetext", `Step ${now} of ${scenes.length}`);
    buttons.forEach((button) => {
      const back = button.dataset.go === "first" || button.dataset.go === "back";
      button.disabled = now === (back ? 1 : scenes.length);
    });
    status.textContent = `Step ${now}: ${scenes[now - 1].querySelector("h2").textContent}`;
    if (address) history.replaceState(null, "", `#step-${now}`);
    // Side by side the list follows; one above the other it would pull the picture out of sight.
    if (reveal && wide.matches) links[now - 1].scrollIntoView({ block: "nearest" });
  };

  const go = { first: () => 1, back: () => now - 1, on: () => now + 1, last: () => scenes.length };
  const keys = {
    ArrowLeft: go.back, ArrowUp: go.back, ArrowRight: go.on, ArrowDown: go.on, Home: go.first, End: go.last,
  };

  document.addEventListener("keydown", (event) => {
    const where = keys[event.key];
    if (!where || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.target === slider) return;
    event.preventDefault();
    show(where());
    // Who walks through the list with the keyboard takes the focus along.
    if (document.activeElement.closest(".step")) links[now - 1].focus({ preventScroll: true });
  });
  slider.addEventListener("input", () => show(Number(slider.value)));
  buttons.forEach((button) => button.addEventListener("click", () => show(go[button.dataset.go]())));
  links.forEach((link, index) => link.addEventListener("click", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    show(index + 1);
    if (!wide.matches) stage.scrollIntoView({ behavior: still.matches ? "auto" : "smooth" });
  }));
  addEventListener("hashchange", () => show(named() || opens, { address: false }));

  show(named() || opens, { address: false });
})();
