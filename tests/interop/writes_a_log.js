// Writes a log with HdrHistogram in JavaScript from a JSON document with the values of each tag.
"use strict";
const { readFileSync, writeFileSync } = require("node:fs");
const { build, HistogramLogWriter } = require("hdr-histogram-js");

const [target, source] = process.argv.slice(2);
let log = "";
const writer = new HistogramLogWriter((text) => {
  log += text;
});
writer.outputLogFormatVersion();
writer.outputStartTime(1763733000123);
writer.outputLegend();
for (const { tag, digits, values } of JSON.parse(readFileSync(source, "utf8"))) {
  const histogram = build({
    bitBucketSize: 64,
    lowestDiscernibleValue: 1,
    highestTrackableValue: 1e13,
    numberOfSignificantValueDigits: digits,
  });
  values.forEach((value) => histogram.recordValue(value));
  histogram.tag = tag;
  histogram.startTimeStampMsec = 1763733000123;
  histogram.endTimeStampMsec = 1763733001123;
  writer.outputIntervalHistogram(histogram);
}
writeFileSync(target, log);
