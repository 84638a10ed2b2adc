// node bulk.mjs URL INDEX FILE: see benchmarks/clients/__init__.py.
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { Client } from '@elastic/elasticsearch'

const [url, index, file] = process.argv.slice(2)
const documents = readFileSync(file, 'utf8').trimEnd().split('\n').map(line => JSON.parse(line))
const client = new Client({ node: url })
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

console.log('ready')
await lines.next()
const done = await client.helpers.bulk({
  datasource: documents,
  onDocument: document => ({ index: { _index: index, _id: document.id } })
})
console.log(JSON.stringify({ written: done.successful }))
await lines.next()
