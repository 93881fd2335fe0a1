// How large charts are: as large as the window allows while all are in view, never smaller than can be read.

export interface Arrangement {
  columns: number;
  /** Height of a plot, px. */
  plot: number;
}

const GAP = 12;
/** Of a chart around its plot, and of a group around its charts, px. */
const FRAME = 74;
const HEAD = 46;
const NARROWEST = 310;
const WIDE_PAGE = 1500;
const FLATTEST = 0.42;
/** Where there is room left, a plot grows to this part of its chart's width. */
const STEEPEST = 0.6;

/**
 * @param groups How many charts each has; a group stands beside others where there is room.
 * @param width Of the charts' area, px.
 * @param height Of it what is in view, px.
 */
export function arrange(groups: readonly number[], width: number, height: number): Arrangement {
  const isWide = width >= WIDE_PAGE;
  const narrowest = isWide ? 400 : NARROWEST;
  const lowest = isWide ? 208 : 176;
  const most = Math.max(1, Math.floor((width + GAP) / (narrowest + GAP)));
  for (let columns = 1; columns <= most; columns++) {
    const chart = (width - (columns - 1) * GAP) / columns;
    const high = (part: number) => Math.max(lowest, Math.min(chart * part, height * 0.6));
    const { bands, rows } = packed(groups, columns);
    const room = (height - bands * HEAD) / rows - FRAME - GAP;
    if (high(FLATTEST) <= room) return { columns, plot: Math.floor(Math.min(high(STEEPEST), room)) };
  }
  return { columns: most, plot: lowest };
}

/** Bands of groups beside each other, and rows of charts in all of them. */
function packed(groups: readonly number[], columns: number): { bands: number; rows: number } {
  let [bands, rows, left, tallest] = [0, 0, 0, 0];
  for (const size of groups) {
    const span = Math.min(size, columns);
    if (span > left) {
      rows += tallest;
      [bands, left, tallest] = [bands + 1, columns, 0];
    }
    left -= span;
    tallest = Math.max(tallest, Math.ceil(size / columns));
  }
  return { bands, rows: rows + tallest };
}
