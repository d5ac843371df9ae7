// Create and update elements. Text is always set as text: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";

export const at = id => document.getElementById(id);

/** Create an element with a class and children: elements or texts. */
export function element(tag, name = "", ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...children);
  return made;
}

/** Create an SVG element with attributes and an optional text. */
export function shape(tag, attributes, text = "") {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

/** Set an element's text unless it has that already, so that a selection stays. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Set an element's children, and move only those that are out of place, so that focus and selection stay. */
export function arrange(parent, nodes) {
  nodes.forEach((node, place) => {
    if (parent.children[place] !== node) parent.insertBefore(node, parent.children[place] ?? null);
  });
  while (parent.children.length > nodes.length) parent.lastElementChild.remove();
}
