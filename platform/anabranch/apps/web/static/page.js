// Airflow shows these pages in a frame of its own: as dark as Airflow is, and with links that lead out of it.
"use strict";
if (window.parent !== window) {
  const around = window.parent.document;
  const follow = () => {
    document.documentElement.dataset.theme = around.documentElement.classList.contains("dark") ? "dark" : "light";
  };
  follow();
  new MutationObserver(follow).observe(around.documentElement, { attributes: true, attributeFilter: ["class"] });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-out]");
    if (link === null) return;
    event.preventDefault(); // the frame may open no window, the page around it may
    const same = around.createElement("a");
    Object.assign(same, { href: link.href, target: "_blank", rel: "noopener" });
    same.click();
  });
}
