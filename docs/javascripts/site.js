// Names and keyboard access that the theme leaves out.
window.addEventListener("load", () => {
  document.querySelector(".md-search[role=dialog]")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-code__nav").forEach((each, at) => each.setAttribute("aria-label", `Code ${at + 1}`));
  document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset__table").forEach((each) => {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
  });
});
