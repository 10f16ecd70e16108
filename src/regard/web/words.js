// Words as the service counts them: what stands between spaces.

/** The words of a line with the places where they begin. */
export function wordsOf(line) {
  // deno-lint-ignore no-control-regex -- what Python's str.split() treats as a space
  return Array.from(line.matchAll(/[^\s\x1c-\x1f\x85]+/g), (match) => ({ text: match[0], start: match.index }));
}

/**
 * Fill a block with a line's text, each word in an element of its own from `element(word, number)`.
 * The text is complete and in order, spaces too, so that it can be selected and copied as it is.
 */
export function fillWithWords(block, line, element) {
  const made = [];
  let place = 0;
  block.replaceChildren();
  for (const [number, word] of wordsOf(line).entries()) {
    if (word.start > place) block.append(line.slice(place, word.start));
    made.push(element(word.text, number));
    block.append(made.at(-1));
    place = word.start + word.text.length;
  }
  if (place < line.length) block.append(line.slice(place));
  if (!line) block.append(document.createElement("br"));
  return made;
}
