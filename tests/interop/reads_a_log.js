// Prints what HdrHistogram in JavaScript reads from a log: one line of JSON per interval.
"use strict";
const { readFileSync } = require("node:fs");
const { HistogramLogReader } = require("hdr-histogram-js");

const percentiles = process.argv.slice(3).map(Number);
const reader = new HistogramLogReader(readFileSync(process.argv[2], "utf8"), 64);
for (let read = reader.nextIntervalHistogram(); read; read = reader.nextIntervalHistogram()) {
  console.log(
    JSON.stringify({
      tag: read.tag === "NO TAG" ? null : read.tag,
      count: read.totalCount,
      percentiles: percentiles.map((percentile) => read.getValueAtPercentile(percentile)),
    }),
  );
}
