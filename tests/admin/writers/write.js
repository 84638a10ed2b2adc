// Write lines {"index": name, "source": document} of the standard input: node write.js PRODUCT URL
import { text } from "node:stream/consumers";

const [product, node] = process.argv.slice(2);
// A server refuses clients of a later major version.
const packages = {
  elasticsearch: "@elastic/elasticsearch",
  elasticsearch8: "@elastic/elasticsearch-8",
  opensearch: "@opensearch-project/opensearch",
};
const { Client } = await import(packages[product]);
const lines = (await text(process.stdin)).trim().split("\n").map((line) => JSON.parse(line));
const client = new Client({ node });
const { successful, failed } = await client.helpers.bulk({
  datasource: lines,
  onDocument: ({ index, source }) => [{ create: { _index: index } }, source],
  onDrop: (dropped) => console.error(JSON.stringify(dropped)),
});
if (failed || successful !== lines.length) process.exitCode = 1;
