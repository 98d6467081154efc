/**
 * Charts as SVG text, by Observable Plot on a document without a browser.
 *
 * Both packages are large, so they are loaded, and downloaded, when a chart is drawn and not before.
 *
 * @module
 */

import type * as PlotModule from "@observablehq/plot";

// Not written where they are imported: what stands there is downloaded when a program starts that might import it.
const PLOT: string = "npm:@observablehq/plot@^0.6.17";
const LINKEDOM: string = "npm:linkedom@^0.18.12";

/** What the packages are; the same as in the import map. */
export const CHART_PACKAGES: Readonly<Record<string, string>> = { "@observablehq/plot": PLOT, "linkedom": LINKEDOM };

/** The chart library. */
export type Plot = typeof PlotModule;

/** Draws a chart: `options` is given the library and returns what `Plot.plot` takes. */
export async function drawSvg(options: (plot: Plot) => PlotModule.PlotOptions): Promise<string> {
  const plot = await import(PLOT) as Plot;
  const dom = await import(LINKEDOM) as { parseHTML(text: string): { document: unknown } };
  const { document } = dom.parseHTML("<html></html>");
  const svg = plot.plot({ ...options(plot), document } as PlotModule.PlotOptions) as unknown as {
    setAttribute(name: string, value: string): void;
    outerHTML: string;
  };
  svg.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return `${svg.outerHTML}\n`;
}
