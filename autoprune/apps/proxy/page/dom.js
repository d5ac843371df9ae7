// Elements, made of tags and texts. A text is always put in as text: nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";

export const at = id => document.getElementById(id);

/** Return an element with a class and children: elements, or texts. */
export function element(tag, name = "", ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...children);
  return made;
}

/** Return an element of a drawing with attributes, and a text where one is given. */
export function shape(tag, attributes, text = "") {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

/** Give an element a text, and leave it alone where it has that already, so that a selection stays. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Let an element have these children in this order, and move none that is in its place: focus and selection stay. */
export function arrange(parent, nodes) {
  nodes.forEach((node, place) => {
    if (parent.children[place] !== node) parent.insertBefore(node, parent.children[place] ?? null);
  });
  while (parent.children.length > nodes.length) parent.lastElementChild.remove();
}
