#!/bin/sh
# same_picture.sh NOW EXPECTED: two pictures that examples/pictures has drawn are the same, but for bytes of a frame
# that differ from one compiler or one run to another: two lines before the words that say what they are.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
same() {
  awk '{ line[NR] = $0 }
    />(function id|frames received|CRC-32C of the 100 bytes before)</ { line[NR - 2] = "" }
    END { for (i = 1; i <= NR; ++i) print line[i] }' "$1"
}
same "$1" >"$folder/now"
same "$2" >"$folder/expected"
[ -s "$folder/now" ] && diff "$folder/now" "$folder/expected"
