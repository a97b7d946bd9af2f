#!/bin/sh
# recorded.sh FOLDER COMMAND...: runs a server, and keeps in FOLDER what the client that started it cannot tell: the
# server's process id, what it wrote to stderr, and the status it ended with.
folder=$1
shift
sh -c 'echo $$ >> "$0/pids"; exec "$@"' "$folder" "$@" 2>> "$folder/stderr"
echo $? >> "$folder/statuses"
