// bulk URL INDEX FILE: see benchmarks/clients/__init__.py.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/elastic/go-elasticsearch/v9"
	"github.com/elastic/go-elasticsearch/v9/esutil"
)

func main() {
	url, index, file := os.Args[1], os.Args[2], os.Args[3]
	data, err := os.ReadFile(file)
	check(err)
	var documents []map[string]any
	for _, line := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		var document map[string]any
		check(json.Unmarshal(line, &document))
		documents = append(documents, document)
	}
	client, err := elasticsearch.NewClient(elasticsearch.Config{Addresses: []string{url}})
	check(err)
	input := bufio.NewReader(os.Stdin)

	fmt.Println("ready")
	input.ReadString('\n')
	indexer, err := esutil.NewBulkIndexer(esutil.BulkIndexerConfig{Client: client, Index: index})
	check(err)
	for _, document := range documents {
		body, err := json.Marshal(document)
		check(err)
		check(indexer.Add(context.Background(), esutil.BulkIndexerItem{
			Action:     "index",
			DocumentID: document["id"].(string),
			Body:       bytes.NewReader(body),
		}))
	}
	check(indexer.Close(context.Background()))
	stats := indexer.Stats()
	fmt.Printf("{\"written\": %d}\n", stats.NumFlushed-stats.NumFailed)
	input.ReadString('\n')
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
