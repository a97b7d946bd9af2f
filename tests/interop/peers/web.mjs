import { createServer } from 'node:http';
import { Readable } from 'node:stream';

/** Serves web-standard requests with Node.js, on any free port, which it tells. */
export function listen(handle) {
  const server = createServer(async (incoming, outgoing) => {
    const gone = new AbortController();
    outgoing.once('close', () => gone.abort());
    const body = ['GET', 'HEAD'].includes(incoming.method) ? undefined : Readable.toWeb(incoming);
    const request = new Request(`http://${incoming.headers.host}${incoming.url}`, {
      method: incoming.method,
      headers: incoming.headers,
      body,
      duplex: 'half',
      signal: gone.signal
    });
    const response = await handle(request);
    outgoing.writeHead(response.status, Object.fromEntries(response.headers)).flushHeaders();
    if (response.body === null) return outgoing.end();
    const sending = Readable.fromWeb(response.body);
    outgoing.once('close', () => sending.destroy());
    sending.on('error', () => outgoing.destroy()).pipe(outgoing);
  });
  server.listen(0, '127.0.0.1', () => console.error(`running on http://127.0.0.1:${server.address().port}`));
}
