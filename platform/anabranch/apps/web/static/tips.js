// Explains what has a data-tip: under the pointer, at the keyboard's focus, and gone with Escape.
"use strict";
(() => {
  const tip = Object.assign(document.createElement("div"), { id: "tip", role: "tooltip", hidden: true });
  document.body.append(tip);
  let target = null;
  let leaving;

  function place() {
    if (target === null) return;
    const [at, size] = [target.getBoundingClientRect(), tip.getBoundingClientRect()];
    const below = at.bottom + 6 + size.height <= window.innerHeight;
    tip.style.left = `${Math.max(8, Math.min(at.left, document.documentElement.clientWidth - size.width - 8))}px`;
    tip.style.top = `${below ? at.bottom + 6 : Math.max(8, at.top - size.height - 6)}px`;
  }

  function show(wanted) {
    clearTimeout(leaving);
    if (wanted === target) return;
    hide();
    target = wanted;
    tip.textContent = wanted.dataset.tip;
    tip.hidden = false;
    if (!wanted.hasAttribute("aria-label")) wanted.setAttribute("aria-describedby", "tip");
    place();
  }

  function hide() {
    clearTimeout(leaving);
    target?.removeAttribute("aria-describedby");
    target = null;
    tip.hidden = true;
  }

  const tipped = (event) => event.target.closest("[data-tip]");
  document.addEventListener("pointerover", (event) => {
    const wanted = tipped(event);
    if (wanted !== null) show(wanted);
    else if (event.target === tip) clearTimeout(leaving); // one may go there, to read or to copy it
    else if (target !== null && target !== document.activeElement) leaving = setTimeout(hide, 200);
  });
  document.addEventListener("focusin", (event) => {
    const wanted = tipped(event);
    if (wanted?.matches(":focus-visible")) show(wanted);
    else hide();
  });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
  document.addEventListener("scroll", place, true);
})();
