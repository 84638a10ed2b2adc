// Write lines {"index": name, "source": document} of the standard input: node write.js PRODUCT URL
import { text } from "node:stream/consumers";

const [product, node] = process.argv.slice(2);
const { Client } = await import(
  product === "elasticsearch" ? "@elastic/elasticsearch" : "@opensearch-project/opensearch"
);
const lines = (await text(process.stdin)).trim().split("\n").map((line) => JSON.parse(line));
const client = new Client({ node });
const { successful, failed } = await client.helpers.bulk({
  datasource: lines,
  onDocument: ({ index, source }) => [{ create: { _index: index } }, source],
  onDrop: (dropped) => console.error(JSON.stringify(dropped)),
});
if (failed || successful !== lines.length) process.exitCode = 1;
