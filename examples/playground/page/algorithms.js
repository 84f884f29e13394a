// A description of each algorithm, and the most that it admits in any window, as its documentation says.

const bucket = (max, burst) => burst + max - 1;

export const ALGORITHMS = {
  sliding_window: {
    about: "An exact log: never more than max in any window, wherever it begins.",
    bound: (max) => max,
  },
  sliding_counter: {
    about: "Two counters, and an estimate between them: little memory, nearly exact.",
    bound: (max) => Math.max(max, 2 * max - 2),
  },
  fixed_window: {
    about: "One counter that starts again: almost twice max around an edge.",
    bound: (max) => 2 * max - 1,
  },
  token_bucket: {
    about: "Tokens come at max per window, and burst of them can be saved up.",
    bound: bucket,
    isBucket: true,
  },
  leaky_bucket: {
    about: "The same at a constant rate, as one number (GCRA).",
    bound: bucket,
    isBucket: true,
  },
};
