// The chat page and the dashboard in a browser, over rose serve with the demo model.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { Browser } from './browser.js';
import { front } from './front.js';

let base, browser, between;
const servers = [];

// Starts rose serve on a free port; its output says which.
async function serve(...options) {
  const rose = spawn(process.env.ROSE, ['serve', '--port', '0', ...options], { stdio: ['ignore', 'pipe', 'pipe'] });
  servers.push(rose);
  let output = '';
  return new Promise((resolve, reject) => {
    const read = (bytes) => {
      output += bytes;
      const url = output.match(/http:\/\/127\.0\.0\.1:(\d+)/);
      if (url && output.includes('Application startup complete.')) resolve(url[0]);
    };
    rose.stdout.on('data', read);
    rose.stderr.on('data', read);
    rose.on('exit', (code) => reject(new Error(`rose serve ended with ${code}:\n${output}`)));
  });
}

before(async () => {
  base = await serve();
  between = await front(base);
  browser = await Browser.start(process.env.CHROMIUM);
});
after(async () => {
  await browser?.close();
  between?.close();
  for (const rose of servers) {
    rose.removeAllListeners('exit');
    rose.kill('SIGTERM');
  }
});

const kIdle = 'document.getElementById("stop").hidden';

async function open(path = '/') {
  const page = await browser.page();
  await page.size(1200, 800);
  await page.open(between.url + path);
  return page;
}
async function ask(page, text) {
  await page.value('document.getElementById("input").focus()');
  await page.type(text);
  await page.press('Enter');
  await page.until(`[...document.querySelectorAll('.user .body')].at(-1)?.textContent === ${JSON.stringify(text)}`);
  await page.until(kIdle);
}
const last = (page, selector) => page.value(`[...document.querySelectorAll(${JSON.stringify(selector)})].at(-1)?.textContent`);
async function picture(page, name) {  // for people to look at
  if (!process.env.PICTURES) return;
  mkdirSync(process.env.PICTURES, { recursive: true });
  writeFileSync(`${process.env.PICTURES}/${name}.png`, await page.screenshot());
}
const set = (page, id, value) => page.value(`(() => {
  const control = document.getElementById(${JSON.stringify(id)});
  if (control.type === 'checkbox') control.checked = ${JSON.stringify(value)};
  else control.value = ${JSON.stringify(value)};
  control.dispatchEvent(new Event('change', { bubbles: true }));
})()`);

test('a question is answered, its reasoning folded, its speed shown', async () => {
  const page = await open();
  assert.match(await page.value('document.getElementById("model").textContent'), /demo|^$/);
  await set(page, 'temperature', '0');
  await set(page, 'effort', 'high');
  await ask(page, 'Which city is the capital of Denmark?');
  assert.match(await last(page, '.assistant .body'), /Copenhagen/);
  assert.match(await last(page, '.reasoning .plain'), /Copenhagen/);
  assert.equal(await page.value('document.querySelector(".reasoning").open'), false);
  assert.match(await last(page, '.assistant .meta'), /\d+ tokens · [\d.]+ tokens\/s · first after/);
  await picture(page, 'answer');
  assert.deepEqual(page.problems, []);
});

test('the conversation goes on, and is there after a reload', async () => {
  const page = await open();
  await set(page, 'temperature', '0');
  await ask(page, 'My name is Ana.');
  await ask(page, 'What is 47 + 38?');
  const before = await page.value('document.getElementById("turns").textContent');
  await page.open(`${between.url}/`);
  await page.until('document.querySelectorAll("#chats .open").length === 1');
  await page.value('document.querySelector("#chats .open").click()');
  assert.equal(await page.value('document.getElementById("turns").textContent'), before);
  assert.equal(await page.value('document.getElementById("temperature").value'), '0');
  await page.value('document.getElementById("forget").click()');
  await page.until('localStorage.getItem("rose.chats") === "[]"');
  assert.deepEqual(page.problems, []);
});

test('what a model writes is text: no element, no script, no address but http', async () => {
  const page = await open();
  const hostile = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>' +
    '[a](javascript:window.broken=1) [b](https://example.com/x) **bold** `<b>code</b>`\n\n' +
    '```html\n<script>window.broken=1</script>\n```\n\n| a | <i>b</i> |\n|---|---|\n| 1 | <svg onload=window.broken=1> |\n\n- <iframe src=//x>\n\n# <u>h</u>';
  between.say([
    { role: 'assistant' }, { reasoning: '<img src=x onerror="window.broken=1">' },
    ...hostile.match(/[^]{1,7}/g).map((content) => ({ content })),
    { tool_calls: [{ index: 0, id: '<i>', function: { name: '<img src=x onerror=window.broken=1>', arguments: '{"a":"<script>' } }] },
  ], { finish: 'tool_calls' });
  await ask(page, '<img src=x onerror="window.broken=1">');
  await page.value('document.querySelectorAll("details").forEach((fold) => { fold.open = true; })');
  assert.equal(await page.value('window.broken'), undefined);
  assert.equal(await page.value('document.querySelectorAll("#turns :is(script, img, svg, iframe, i, u, b)").length'), 0);
  assert.deepEqual(await page.value('[...document.querySelectorAll("#turns a")].map((a) => a.href)'), ['https://example.com/x']);
  assert.ok((await last(page, '.assistant')).includes('<img src=x onerror=window.broken=1>'));
  assert.equal(await last(page, '.assistant .body pre code'), '<script>window.broken=1</script>');
  assert.equal(await last(page, '.assistant .body strong'), 'bold');
  // And were something to slip through, the policy stands in its way.
  await page.value('(() => { const s = document.createElement("a"); s.setAttribute("onclick", "window.broken=1"); document.body.append(s); s.click(); })()').catch(() => {});
  await assert.rejects(page.value('document.body.innerHTML = "<b>x</b>"'), /TrustedHTML/);
  assert.equal(await page.value('window.broken'), undefined);
  assert.ok(page.requests.every((url) => url.startsWith(between.url) || url === 'about:blank'), page.requests.join());
});

test('Escape and Stop end an answer and keep what came', async () => {
  const page = await open();
  for (const stop of ['key', 'button']) {
    const script = between.say([{ content: 'Once upon' }], { open: true });
    await page.value('document.getElementById("input").focus()');
    await page.type('Tell me a story');
    await page.press('Enter');
    await script.asked;
    await page.until('[...document.querySelectorAll(".assistant .body")].at(-1)?.textContent === "Once upon"');
    assert.equal(await page.value('document.getElementById("turns").ariaBusy'), 'true');
    if (stop === 'key') await page.press('Escape');
    else await page.value('document.getElementById("stop").click()');
    await page.until(kIdle);
    assert.match(await last(page, '.assistant .meta'), /stopped/);
    assert.equal(await last(page, '.assistant .body'), 'Once upon');
    for (let i = 0; i < 500 && !script.left; ++i) await new Promise((resolve) => setTimeout(resolve, 10));
    assert.ok(script.left, 'the request goes on');
  }
});

test('an answer belongs to the chat that asked, also when another is shown', async () => {
  const page = await open();
  const script = between.say([{ content: 'for the first' }], { open: true });
  await page.type('first');
  await page.press('Enter');
  await script.asked;
  await page.until('document.querySelector(".assistant .body")?.textContent === "for the first"');
  await page.value('document.getElementById("new").click()');
  await page.until(kIdle);
  assert.equal(await page.value('document.querySelectorAll(".turn").length'), 0);
  await page.value('document.querySelector("#chats .open").click()');
  assert.equal(await last(page, '.assistant .body'), 'for the first');
  await page.value('document.querySelector("#chats [aria-label^=Delete]").click()');
  assert.equal(await page.value('localStorage.getItem("rose.chats")'), '[]');
  assert.deepEqual(page.problems, []);
});

test('demo tools answer by themselves, others by hand', async () => {
  const page = await open();
  await set(page, 'temperature', '0');
  await set(page, 'demo_tools', true);
  await ask(page, 'How is the weather in Zurich?');
  assert.match(await last(page, '.call h3'), /get_weather/);
  assert.match(await last(page, '.call'), /Zurich.*Result.*temperature/s);
  assert.match(await last(page, '.assistant .body'), /Zurich/);
  assert.equal(await page.value('document.querySelectorAll(".call form").length'), 0);
  await picture(page, 'tools');

  await set(page, 'demo_tools', false);
  await set(page, 'tools', '{"name": ');
  assert.match(await page.value('document.getElementById("tools-problem").textContent'), /no good/);
  await set(page, 'tools', '[{"name":"find","parameters":{"type":"object"}}]');
  assert.equal(await page.value('document.getElementById("tools-problem").textContent'), '');
  between.say([{ tool_calls: [{ index: 0, id: 'c1', function: { name: 'find', arguments: '{"q":' } }] },
    { tool_calls: [{ index: 0, function: { arguments: '1}' } }] }], { finish: 'tool_calls' });
  await ask(page, 'Find it.');
  await page.until('document.activeElement.matches(".call textarea")');
  const second = between.say([{ content: 'Found.' }]);
  await page.type('4 C');
  await page.press('Tab');
  await page.press('Enter');
  const { messages, tools } = await second.asked;
  assert.equal(tools[0].function.name, 'find');
  assert.deepEqual(messages.at(-1), { role: 'tool', tool_call_id: 'c1', content: '4 C' });
  assert.equal(messages.at(-2).tool_calls[0].function.arguments, '{"q":1}');
  await page.until(`${kIdle} && [...document.querySelectorAll(".assistant .body")].at(-1).textContent === "Found."`);
  assert.deepEqual(page.problems, []);
});

test('the raw view has the exact prompt and what was generated', async () => {
  const page = await open();
  await set(page, 'temperature', '0');
  await set(page, 'raw', true);
  await ask(page, 'Which city is the capital of Denmark? <|end|>');
  await page.until('document.querySelectorAll(".raw pre").length === 2');
  const texts = await page.value('[...document.querySelectorAll(".raw pre")].map((pre) => pre.textContent)');
  assert.match(texts[0], /^<\|start\|>system<\|message\|>.*<\|start\|>user<\|message\|>Which city.*<\|start\|>assistant$/s);
  assert.match(texts[1], /<\|channel\|>final<\|message\|>.*<\|return\|>$/s);
  // Five messages' worth of markers; what the user wrote is none.
  assert.equal(await page.value('[...document.querySelectorAll(".raw pre")[0].querySelectorAll(".special")].filter((node) => node.textContent === "<|end|>").length'), 2);
  assert.deepEqual(page.problems, []);
});

test('settings reach the server, and its refusals the reader', async () => {
  const page = await open();
  for (const [id, value] of Object.entries({ temperature: '0.5', top_k: '40', seed: '7', stop_text: 'END', system: 'Be brief.', effort: 'low' }))
    await set(page, id, value);
  const script = between.say([{ content: 'ok' }]);
  await ask(page, 'Hi');
  const body = await script.asked;
  assert.deepEqual([body.temperature, body.top_k, body.seed, body.stop, body.reasoning_effort], [0.5, 40, 7, 'END', 'low']);
  assert.deepEqual(body.messages[0], { role: 'system', content: 'Be brief.' });
  await set(page, 'temperature', '7');
  await ask(page, 'Hi again');
  assert.match(await last(page, '.assistant .problem'), /400: .*temperature/);
});

test('the keyboard alone is enough', async () => {
  const page = await open();
  assert.ok(await page.value('document.querySelector("a, button, input, textarea").matches(".skip")'));
  await page.value('document.querySelector(".skip").focus()');
  await page.press('Enter');
  await page.until('document.activeElement.id === "input"');
  const script = between.say([{ content: 'first' }, { reasoning: 'why' }]);
  await page.type('one');
  await page.press('Enter', ['Shift']);
  assert.equal(await page.value('document.getElementById("turns").children.length'), 0);
  await page.type('two');
  await page.press('Enter');
  assert.equal((await script.asked).messages.at(-1).content.replace('\r', ''), 'one\ntwo');
  await page.until(kIdle);

  // Settings open, take the focus on, and close by Escape, which gives it back.
  await page.value('document.querySelector(".skip").focus()');
  await page.tabTo('#show-settings');
  await page.press('Enter');
  assert.equal(await page.value('document.getElementById("settings").hidden'), false);
  await page.tabTo('#temperature');
  await page.type('0.5');
  await page.press('Escape');
  assert.equal(await page.value('document.getElementById("settings").hidden'), true);
  assert.equal(await page.value('document.activeElement.id'), 'show-settings');

  // The folded reasoning opens, and a chat of the list.
  await page.tabTo('.reasoning summary');
  await page.press('Enter');
  assert.equal(await page.value('document.querySelector(".reasoning").open'), true);
  await page.value('document.querySelector(".skip").focus()');
  await page.tabTo('#new');
  await page.press('Enter');
  await page.until('document.querySelectorAll(".turn").length === 0');
  await page.value('document.querySelector(".skip").focus()');
  await page.tabTo('#chats .open');
  await page.press('Enter');
  await page.until('document.querySelectorAll(".turn").length === 2');
  assert.deepEqual(page.problems, []);
});

// The contrast of what can be read against what lies behind it, by WCAG's formula.
const kContrast = `(() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => { const [r, g, b] = colour.map((v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b; };
  const poor = [];
  for (const node of document.querySelectorAll('body *')) {
    if (!node.checkVisibility() || ![...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim())) continue;
    let behind = node;
    while (parse(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
    const a = light(parse(getComputedStyle(node).color).slice(0, 3)), b = light(parse(getComputedStyle(behind).backgroundColor).slice(0, 3));
    const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (contrast < 4.5 && !node.closest('.skip')) poor.push(node.tagName + ' ' + node.textContent.slice(0, 30) + ' ' + contrast.toFixed(2));
  }
  return poor;
})()`;
// Controls without a name that a reader could be told.
const kNameless = `[...document.querySelectorAll('button, input, textarea, select, a')].filter((node) => node.checkVisibility() &&
  !(node.ariaLabel || node.textContent.trim() || node.labels?.length)).map((node) => node.outerHTML)`;

for (const scheme of ['light', 'dark']) {
  test(`${scheme}, wide and as narrow as a phone: readable, nothing hangs over`, async () => {
    for (const [width, height] of [[1200, 800], [360, 700]]) {
      const page = await browser.page();
      await page.scheme(scheme);
      await page.size(width, height, width < 500);
      await page.open(`${between.url}/`);
      between.say([{ reasoning: 'think' }, { content: `Long ${'word'.repeat(60)}\n\n\`\`\`\n${'code '.repeat(60)}\n\`\`\`\n\n| a | b |\n|---|---|\n| ${'x'.repeat(200)} | y |\n\n[link](https://example.com)` },
        { tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: `{"a":"${'y'.repeat(200)}"}` } }] }], { finish: 'tool_calls' });
      await ask(page, `Hello ${'z'.repeat(100)}`);
      await page.value('document.querySelector(".reasoning").open = true');
      const background = await page.value('getComputedStyle(document.body).backgroundColor');
      assert.equal(parseInt(background.match(/\d+/)[0], 10) < 128, scheme === 'dark');
      for (const panel of ['', 'settings']) {
        if (panel) await page.value(`document.getElementById("show-${panel}").click()`);
        assert.ok(await page.value('document.documentElement.scrollWidth <= innerWidth'), `${width} wide hangs over`);
        assert.deepEqual(await page.value(kContrast), []);
        assert.deepEqual(await page.value(kNameless), []);
        await picture(page, `${scheme}-${width}${panel && `-${panel}`}`);
      }
      assert.deepEqual(page.problems, []);
      await page.open(`${between.url}/dashboard`);
      await page.until('document.querySelectorAll("svg polyline").length > 0');
      assert.ok(await page.value('document.documentElement.scrollWidth <= innerWidth'), 'the dashboard hangs over');
      assert.deepEqual(await page.value(kContrast), []);
      assert.deepEqual(await page.value(kNameless), []);
      await picture(page, `${scheme}-${width}-dashboard`);
    }
  });
}

test('where a key is wanted the browser\'s password will do', async () => {
  const closed = await serve('--api-key', 'open-sesame-4711');
  assert.equal((await fetch(`${closed}/`)).status, 401);
  const page = await browser.page();
  await page.open(`${closed.replace('//', '//me:open-sesame-4711@')}/`);
  await page.until('document.getElementById("model").textContent.startsWith("demo")');
  await ask(page, 'What is 2 + 2?');
  assert.match(await last(page, '.assistant .meta'), /tokens/);
  await page.value('document.querySelector("nav a").click()');
  await page.until('/^\\d+ requests/.test(document.getElementById("state")?.textContent)');
  // The browser tells of every time that it was asked.
  assert.deepEqual(page.problems.filter((problem) => !/401/.test(problem)), []);
});

test('the theme can be chosen and stays', async () => {
  const page = await open();
  await page.value('document.getElementById("theme").click()');
  assert.equal(await page.value('document.documentElement.dataset.theme'), 'light');
  await page.value('document.getElementById("theme").click()');
  assert.equal(await page.value('getComputedStyle(document.documentElement).colorScheme'), 'dark');
  await page.open(`${between.url}/dashboard`);
  await page.until('document.documentElement.dataset.theme === "dark"');
});

test('the dashboard draws what /metrics says', async () => {
  const page = await open('/dashboard');
  await page.until('document.querySelectorAll(".card").length === 8');
  const requests = async () => parseInt(await page.value('document.getElementById("state").textContent'), 10);
  await page.until('/^\\d+ requests/.test(document.getElementById("state").textContent)');
  const before = await requests();
  const completion = await fetch(`${base}/v1/chat/completions`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'What is 2 + 2?' }] }),
  });
  assert.equal(completion.status, 200);
  await page.until(`parseInt(document.getElementById("state").textContent, 10) === ${before + 1}`);
  await page.until('/[1-9]/.test(document.querySelector(".card .now b").textContent)');
  await page.until('/Tokens per second: generated [\\d.]+/.test(document.querySelector("svg").ariaLabel)');
  assert.deepEqual(page.problems, []);
});
