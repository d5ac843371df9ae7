// Builds elements from tags and texts. Texts are only ever set as text: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";

export const at = id => document.getElementById(id);

/** Return an element with a class and children: elements, or texts. */
export function element(tag, name = "", ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...children);
  return made;
}

/** Return an SVG element with attributes and, optionally, a text. */
export function shape(tag, attributes, text = "") {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

/** Set an element's text. Leaves an element with the same text alone, so that a selection in it survives. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Make `nodes` the children of `parent`. Children already in place are not moved, so that focus and selection survive. */
export function arrange(parent, nodes) {
  nodes.forEach((node, place) => {
    if (parent.children[place] !== node) parent.insertBefore(node, parent.children[place] ?? null);
  });
  while (parent.children.length > nodes.length) parent.lastElementChild.remove();
}
