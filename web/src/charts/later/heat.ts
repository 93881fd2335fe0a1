// The heat map: what it is made of and how it is drawn. A script of its own, fetched when the page has been opened; a report
// has it inside. It stands alone and announces itself, since a script inside a page cannot be imported.

import { heatOf, hostBands, withOdd } from "../../state/heat";
import { cellAt, cellBy, heatLayout, paintHeat, placeOf } from "../heatmap";

Reflect.set(globalThis, Symbol.for("trackside.heat"), { heatOf, withOdd, hostBands, heatLayout, paintHeat, placeOf, cellAt, cellBy });
export {};
