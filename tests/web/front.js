// Stands between the browser and rose: passes everything on, but for answers that a test has written.
import http from 'node:http';

export async function front(rose) {
  const scripts = [];  // of the next chat completions: async (response) => …
  const server = http.createServer((request, response) => {
    if (request.url === '/v1/chat/completions' && scripts.length) {
      let body = '';
      request.on('data', (bytes) => { body += bytes; }).on('end', () => scripts.shift()(response, JSON.parse(body)));
      return;
    }
    const { hostname, port } = new URL(rose);
    const onward = http.request({ hostname, port, path: request.url, method: request.method, headers: request.headers },
      (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    // The next answer is made of these deltas, and ends unless `open`.
    say(deltas, { open = false, finish = 'stop' } = {}) {
      const script = { left: false };
      script.asked = new Promise((resolve) => {
        scripts.push((response, body) => {
          response.on('close', () => { script.left = !response.writableEnded; });
          response.writeHead(200, { 'Content-Type': 'text/event-stream' });
          const chunk = (delta, finish_reason = null) => response.write(`data: ${JSON.stringify(
            { choices: [{ index: 0, delta, finish_reason }] })}\n\n`);
          for (const delta of deltas) chunk(delta);
          if (!open) {
            chunk({}, finish);
            response.end('data: [DONE]\n\n');
          }
          resolve(body);
        });
      });
      return script;
    },
    close: () => { server.closeAllConnections?.(); server.close(); },
  };
}
