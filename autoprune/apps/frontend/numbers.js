// Formats numbers for people.

const PLAIN = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** Return a whole number with thousands separators. */
export const count = number => PLAIN.format(number);

/** Return a token count in about four digits: 9,500, then 134k, 2.1M. */
export function tokens(number) {
  const size = Math.abs(Math.round(number));
  if (size < 10_000) return count(number);
  return size < 999_500 ? `${count(number / 1_000)}k` : `${(number / 1_000_000).toFixed(1)}M`;
}

export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}%`;

export const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
