// Computes with vectors: cosines, mixes of layers, the plane of two principal components.

/** @typedef {Float32Array | Float64Array} Vector */

/** @param {Vector} a @param {Vector} b @returns {number} */
function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/** @param {Vector} a @returns {number} its length */
export const norm = (a) => Math.sqrt(dot(a, a));

/** Returns the cosine of two vectors, or 0 if one is zero. @param {Vector} a @param {Vector} b @returns {number} */
export function cosine(a, b) {
  const size = norm(a) * norm(b);
  return size > 0 ? Math.max(-1, Math.min(1, dot(a, b) / size)) : 0;
}

/** @param {number[]} values @returns {number} */
export const mean = (values) => values.reduce((sum, each) => sum + each, 0) / Math.max(1, values.length);

/** Scales a vector to length 1; zero stays zero. @param {Vector} a @returns {Float64Array} */
export function toUnit(a) {
  const size = norm(a) || 1;
  return Float64Array.from(a, (each) => each / size);
}

/**
 * Turns or mirrors the points of each layer to lie as near as possible to those of the layer above. Distances do not
 * change, so what moves from layer to layer has really moved.
 * @param {[number, number][][]} layers @returns {[number, number][][]}
 */
export function aligned(layers) {
  const turned = [...layers];
  for (let layer = layers.length - 2; layer >= 0; layer--) {
    const above = turned[layer + 1];
    const candidates = [1, -1].map((mirror) => {
      const own = layers[layer].map(([x, y]) => /** @type {[number, number]} */ ([x, mirror * y]));
      const same = own.reduce((sum, [x, y], i) => sum + x * above[i][0] + y * above[i][1], 0);
      const across = own.reduce((sum, [x, y], i) => sum + x * above[i][1] - y * above[i][0], 0);
      return { own, angle: Math.atan2(across, same), fit: Math.hypot(across, same) };
    });
    const { own, angle } = candidates[0].fit >= candidates[1].fit ? candidates[0] : candidates[1];
    const [c, s] = [Math.cos(angle), Math.sin(angle)];
    turned[layer] = own.map(([x, y]) => [c * x - s * y, s * x + c * y]);
  }
  return turned;
}

/** @param {number[]} weights @returns {number[]} positive numbers whose sum is 1 */
export function softmax(weights) {
  const most = Math.max(...weights);
  const raised = weights.map((weight) => Math.exp(weight - most));
  const sum = raised.reduce((a, b) => a + b);
  return raised.map((each) => each / sum);
}

/**
 * Returns gamma * sum_j softmax(weights)_j * layers_j, the scalar mix of the paper.
 * @param {Vector[]} layers one vector of each layer
 * @param {number[]} weights the weights before the softmax
 * @param {number} gamma
 * @returns {Float64Array}
 */
export function mixed(layers, weights, gamma) {
  const shares = softmax(weights);
  const sum = new Float64Array(layers[0].length);
  layers.forEach((layer, j) => {
    for (let i = 0; i < sum.length; i++) sum[i] += gamma * shares[j] * layer[i];
  });
  return sum;
}

/**
 * Returns points in the plane of the two directions in which the vectors differ most, and each direction's part of the
 * variance. It uses power iteration on the products of the centred vectors; a direction without variance is 0.
 * @param {Vector[]} vectors
 * @returns {{points: [number, number][], parts: [number, number]}}
 */
export function plane(vectors) {
  const centred = centre(vectors);
  const products = centred.map((a) => Float64Array.from(centred, (b) => dot(a, b)));
  const total = products.reduce((sum, row, i) => sum + row[i], 0);
  const scale = vectors.reduce((sum, vector) => sum + dot(vector, vector), 0);
  /** @type {[number, number][]} */
  const points = vectors.map(() => [0, 0]);
  /** @type {[number, number]} */
  const parts = [0, 0];
  for (const axis of /** @type {const} */ ([0, 1])) {
    const [direction, value] = leading(products);
    if (value <= 1e-9 * scale) break; // the rest is rounding, not variance
    parts[axis] = value / total;
    direction.forEach((each, i) => {
      points[i][axis] = each * Math.sqrt(value);
    });
    products.forEach((row, i) => {
      for (let j = 0; j < row.length; j++) row[j] -= value * direction[i] * direction[j];
    });
  }
  return { points, parts };
}

/** Subtracts the mean of the vectors from each. @param {Vector[]} vectors @returns {Float64Array[]} */
function centre(vectors) {
  const middle = new Float64Array(vectors[0]?.length ?? 0);
  for (const vector of vectors) for (let i = 0; i < middle.length; i++) middle[i] += vector[i] / vectors.length;
  return vectors.map((vector) => Float64Array.from(vector, (each, i) => each - middle[i]));
}

/**
 * Returns the eigenvector of the largest eigenvalue of a symmetric matrix, and that value. Its sign is fixed: its
 * largest entry is positive.
 * @param {Float64Array[]} matrix
 * @returns {[Float64Array, number]}
 */
function leading(matrix) {
  let direction = Float64Array.from(matrix, (_, i) => 1 + ((i * 7919) % 101) / 101);
  let value = 0;
  for (let step = 0; step < 1000; step++) {
    const next = Float64Array.from(matrix, (row) => dot(row, direction));
    const size = norm(next);
    if (size === 0) return [direction, 0];
    for (let i = 0; i < next.length; i++) next[i] /= size;
    const moved = 1 - Math.abs(dot(next, direction)) / norm(direction);
    [direction, value] = [next, size];
    if (moved < 1e-14) break;
  }
  const largest = direction.reduce((best, each) => (Math.abs(each) > Math.abs(best) ? each : best), 0);
  return [largest < 0 ? direction.map((each) => -each) : direction, value];
}

/**
 * Returns the part of the uses whose nearest other use has the same label. Uses that are equally near share the vote. A
 * use whose label no other one has is not counted, since no nearest use can have it; without any other, it is NaN.
 * @param {Vector[]} vectors
 * @param {string[]} labels
 * @returns {number}
 */
export function alike(vectors, labels) {
  const votes = vectors.flatMap((own, i) => {
    if (!labels.some((label, j) => j !== i && label === labels[i])) return [];
    const near = vectors.map((other, j) => (i === j ? -2 : cosine(own, other)));
    const best = Math.max(...near);
    const tied = labels.filter((_, j) => near[j] > best - 1e-6);
    return [tied.filter((label) => label === labels[i]).length / tied.length];
  });
  return votes.reduce((sum, each) => sum + each, 0) / votes.length;
}

/**
 * Writes rows as comma-separated values, in quotes where these are needed.
 * @param {(string | number)[][]} rows @returns {string}
 */
export function csv(rows) {
  const cell = (/** @type {string | number} */ each) => {
    const text = typeof each === "number" ? String(Number(each.toPrecision(7))) : each;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",") + "\n").join("");
}
