// Starts `rose serve` on a free port and says where it is; stop() asks it to end and checks that it ends well.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';

export async function serve(...more) {
  const server = spawn(process.env.ROSE, ['serve', '--port', '0', ...more],
    { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const base = await new Promise((resolve, reject) => {
    const read = (bytes) => {
      output += bytes;
      const url = output.match(/http:\/\/127\.0\.0\.1:(\d+)/);
      if (url && output.includes('Application startup complete.')) resolve(url[0]);
    };
    server.stdout.on('data', read);
    server.stderr.on('data', read);
    server.on('exit', (code) => reject(new Error(`rose serve ended with ${code}:\n${output}`)));
  });
  server.removeAllListeners('exit');
  const end = async (signal) => {
    const exited = once(server, 'exit');
    server.kill(signal);
    return (await exited)[0];
  };
  return {
    base,
    kill: () => end('SIGKILL'),
    stop: async () => assert.equal(await end('SIGTERM'), 0),
  };
}
