esdedup clean new -o out --against old
