// Arrays of a look: nested lists, or base64 of little-endian float32 with a shape.

/** A shape and its numbers in one run; `at(1, 2)` is the part (or the number) under these indices, without copying. */
export class Tensor {
  constructor(shape, numbers) {
    this.shape = shape;
    this.numbers = numbers;
  }

  at(...indices) {
    let size = this.numbers.length;
    let start = 0;
    indices.forEach((index, i) => {
      size /= this.shape[i];
      start += index * size;
    });
    if (indices.length === this.shape.length) return this.numbers[start];
    return this.numbers.subarray(start, start + size);
  }
}

function fromBase64(text) {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < characters.length; i += 1) bytes[i] = characters.charCodeAt(i);
  const view = new DataView(bytes.buffer);
  const numbers = new Float32Array(bytes.length / 4);
  for (let i = 0; i < numbers.length; i += 1) numbers[i] = view.getFloat32(4 * i, true);
  return numbers;
}

function shapeOf(nested) {
  const shape = [];
  for (let part = nested; Array.isArray(part); part = part[0]) shape.push(part.length);
  return shape;
}

/** Either form of an array → Tensor; null stays null. */
export function decode(array) {
  if (array === null || array === undefined) return null;
  if (!Array.isArray(array)) return new Tensor(array.shape, fromBase64(array.float32));
  const shape = shapeOf(array);
  return new Tensor(shape, Float32Array.from(array.flat(shape.length)));
}
