// Airflow's own link to these pages changes only the address around the frame: the frame leads itself to its first page.
"use strict";
if (window.parent !== window) {
  const around = window.parent.document;
  const home = document.currentScript.dataset.home;
  const lead = (event) => {
    const link = event.target instanceof window.parent.Element ? event.target.closest("a[href]") : null;
    const ours = link !== null && new URL(link.href).pathname.replace(/\/$/, "").endsWith("/plugin/anabranch");
    if (ours && location.pathname !== home) location.assign(home);
  };
  around.addEventListener("click", lead);
  window.addEventListener("pagehide", () => around.removeEventListener("click", lead));
}
