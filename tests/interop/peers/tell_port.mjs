// Preloaded into a server for Node.js that cannot tell which free port it was given.
import { Server } from 'node:net';

const { listen } = Server.prototype;
Server.prototype.listen = function (...args) {
  this.once('listening', () => console.error(`listening on port ${this.address().port}`));
  return listen.apply(this, args);
};
