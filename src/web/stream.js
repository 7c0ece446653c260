// The server, as the page sees it: JSON requests, and answers that come as server-sent events.
export class ServerError extends Error {}

async function refused(response) {
  const text = await response.text();
  let message = text.slice(0, 300);
  try { message = JSON.parse(text).error.message; } catch { /* not ours: as it is */ }
  return new ServerError(`${response.status}: ${message || response.statusText}`);
}

export async function call(path, { key, body, signal } = {}) {
  const headers = { 'Content-Type': 'application/json' };
  if (key) headers.Authorization = `Bearer ${key}`;
  // The page's own address may hold a password, with which fetch would refuse to go on.
  const response = await fetch(new URL(path, location.origin), {
    method: body ? 'POST' : 'GET', headers, signal, body: body && JSON.stringify(body),
  });
  if (!response.ok) throw await refused(response);
  return response;
}

export const json = async (path, options) => (await call(path, options)).json();

// The chunks of a streamed answer. An error among them is thrown.
export async function* chunks(path, options) {
  const response = await call(path, options);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += value;
      for (let end; (end = text.indexOf('\n')) >= 0; text = text.slice(end + 1)) {
        const line = text.slice(0, end).trimEnd();
        if (!line.startsWith('data: ')) continue;
        if (line === 'data: [DONE]') return;
        const chunk = JSON.parse(line.slice(6));
        if (chunk.error) throw new ServerError(chunk.error.message);
        yield chunk;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
