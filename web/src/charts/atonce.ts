import { options } from "preact";

/** Makes a change and draws all that follows from it before it returns: a printer waits for no frame. */
export function atOnce(change: () => void): void {
  const { debounceRendering, requestAnimationFrame: nextFrame } = options;
  const effects: (() => void)[] = [];
  options.debounceRendering = (render) => render();
  options.requestAnimationFrame = (run) => effects.push(run);
  try {
    change();
    for (let run = effects.shift(); run !== undefined; run = effects.shift()) run();
  } finally {
    restore(debounceRendering, nextFrame);
  }
}

function restore(render: typeof options.debounceRendering, nextFrame: typeof options.requestAnimationFrame): void {
  if (render === undefined) delete options.debounceRendering;
  else options.debounceRendering = render;
  if (nextFrame === undefined) delete options.requestAnimationFrame;
  else options.requestAnimationFrame = nextFrame;
}
