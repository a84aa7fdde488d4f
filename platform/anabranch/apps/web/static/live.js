// Keeps a page up to date, and sends its forms, without a reload. What a person has typed, focused or selected stays.
"use strict";
(() => {
  const live = document.getElementById("live");
  const refused = document.getElementById("refused");
  const stale = document.getElementById("stale");
  const BLOCKS = "tr, li, p, pre, dt, dd, h1, h2";
  let sent = 0; // grows with each form: a page that was asked for before it shows the state before it
  let sending = false;
  let pressed = false; // a button must not move away under the pointer

  const isField = (node) => node.matches("input, textarea, select");
  const isEdited = (field) => field.matches("input:not([type=hidden]), textarea") && field.value !== field.defaultValue;
  const isEditedForm = (form) => form !== null && [...form.elements].some(isEdited);

  function isSelected(node) {
    const selection = window.getSelection();
    return !selection.isCollapsed && node.matches(BLOCKS) && selection.containsNode(node, true);
  }

  // A form's hidden field says which state the person has decided on: it stays while they write, until they are told
  // what has changed.
  function keeps(node, told) {
    if (node.nodeType !== Node.ELEMENT_NODE) return false;
    if (node.hasAttribute("data-kept") || isSelected(node)) return true;
    if (!isField(node)) return false;
    return node.type === "hidden" ? !told && isEditedForm(node.form) : node === document.activeElement || isEdited(node);
  }

  // What was typed isn't lost with the buttons that it was meant for.
  function outlives(node) {
    if (node.nodeType !== Node.ELEMENT_NODE) return false;
    const forms = node.matches("form") ? [node] : [...node.querySelectorAll("form")];
    if (!forms.some(isEditedForm)) return isSelected(node);
    for (const form of forms) for (const button of form.querySelectorAll("button")) button.disabled = true;
    return true;
  }

  const KEEP = (told) => ({
    beforeNodeMorphed: (node) => !keeps(node, told),
    beforeNodeRemoved: (node) => !outlives(node),
    beforeAttributeUpdated: (name, node) => !(name === "open" && node.matches("details")),
  });

  function pageIn(html) {
    return new DOMParser().parseFromString(html, "text/html");
  }

  // White space between rows is alike everywhere: matched by it, rows would be moved about, and lose their selection.
  function tidied(root) {
    for (const parent of root.querySelectorAll("main, section, tbody, tr, ul, ol, dl, svg")) {
      for (const node of [...parent.childNodes]) {
        if (node.nodeType === Node.TEXT_NODE && node.data.trim() === "") node.remove();
      }
    }
    return root;
  }

  function show(html, callbacks) {
    const page = pageIn(html);
    const newer = page.getElementById("live");
    if (newer === null) throw new Error("no page of ours");
    const focused = document.activeElement;
    document.title = page.title;
    Idiomorph.morph(live, tidied(newer), { callbacks });
    if (focused !== document.body && !focused.isConnected) document.getElementById("main").focus({ preventScroll: true });
    say(stale, "");
  }

  // What a page of ours says is wrong, as its own element; else the text that is given.
  function problemIn(html, otherwise) {
    return pageIn(html).querySelector(".failed") ?? otherwise;
  }

  function say(place, what) {
    const said = typeof what === "string" ? what : what.textContent;
    if (place.dataset.said === said) return; // else it would be read out every few seconds
    place.dataset.said = said;
    if (typeof what !== "string" || what === "") return place.replaceChildren(...(what === "" ? [] : [what]));
    const line = Object.assign(document.createElement("p"), { textContent: what });
    const box = Object.assign(document.createElement("div"), { className: "failed", role: "alert" });
    box.append(line);
    place.replaceChildren(box);
  }

  async function refresh(told = false) {
    const asked = sent;
    try {
      const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(30_000) });
      const html = await answer.text();
      if (asked !== sent || (pressed && !told)) return;
      if (answer.ok) show(html, KEEP(told));
      else say(stale, problemIn(html, `This page can't be kept up to date: the server answers ${answer.status}.`));
    } catch {
      say(stale, "This page can't be kept up to date: the server doesn't answer. It is asked again every few seconds.");
    }
  }

  async function keepUp() {
    const seconds = Number(live.dataset.every);
    if (!(seconds > 0)) return;
    if (!document.hidden && !sending && !pressed) await refresh();
    setTimeout(keepUp, 1000 * seconds);
  }

  // What is refused is said when the page shows why: whoever reads it can press again at once, and is heard.
  async function send(form, button) {
    sending = true;
    sent += 1;
    let problem = "";
    try {
      // Not form.action: a button is called so.
      const body = new URLSearchParams(new FormData(form, button));
      const answer = await fetch(form.getAttribute("action"), { method: "POST", body });
      const html = await answer.text();
      if (answer.ok) {
        show(html, {});
      } else {
        problem = problemIn(html, `Refused: the server answers ${answer.status}. What you have typed is kept.`);
        await refresh(true);
      }
    } catch {
      problem = "The server doesn't answer, so it isn't known whether this was done. What you have typed is kept: see what the page says before you try again.";
    }
    sending = false;
    say(refused, problem);
    if (refused.childElementCount > 0) refused.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("submit", (event) => {
    if (event.target.getAttribute("method") !== "post") return;
    event.preventDefault();
    if (!sending) send(event.target, event.submitter);
  });
  document.addEventListener("pointerdown", (event) => { pressed = event.button === 0; });
  for (const over of ["pointerup", "pointercancel", "dragend"]) document.addEventListener(over, () => { pressed = false; });
  window.addEventListener("blur", () => { pressed = false; });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !sending && live.dataset.every) refresh();
  });
  tidied(live);
  if (live.dataset.every) setTimeout(keepUp, 1000 * Number(live.dataset.every));
})();
