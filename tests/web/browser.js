// A headless Chromium, driven over the DevTools protocol through a pipe: no library, no port.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const kPatience = 20_000;  // ms; a page that does not get there fails the test

export class Browser {
  static async start(program) {
    const browser = new Browser();
    browser.folder = mkdtempSync(join(tmpdir(), 'rose-web-'));
    browser.process = spawn(program, [
      '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--hide-scrollbars',
      '--disable-background-networking', '--remote-debugging-pipe', `--user-data-dir=${browser.folder}`, 'about:blank',
    ], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    browser.process.on('error', (error) => browser.fail(error));
    browser.process.on('exit', (code) => browser.fail(new Error(`the browser ended with ${code}`)));
    browser.waiting = new Map();
    browser.last = 0;
    browser.pages = new Map();
    let text = '';
    browser.process.stdio[4].setEncoding('utf8').on('data', (bytes) => {
      text += bytes;
      for (let end; (end = text.indexOf('\0')) >= 0; text = text.slice(end + 1))
        browser.receive(JSON.parse(text.slice(0, end)));
    });
    await browser.send('Browser.getVersion');
    return browser;
  }

  send(method, params = {}, sessionId) {
    const id = ++this.last;
    this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject, method }));
  }
  receive(message) {
    if (message.method) return this.pages.get(message.sessionId)?.event(message);
    const { resolve, reject, method } = this.waiting.get(message.id);
    this.waiting.delete(message.id);
    if (message.error) reject(new Error(`${method}: ${message.error.message}`));
    else resolve(message.result);
  }
  fail(error) {
    for (const { reject } of this.waiting?.values() ?? []) reject(error);
  }

  // A page with a profile of its own: nothing kept from others.
  async page() {
    const { browserContextId } = await this.send('Target.createBrowserContext');
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank', browserContextId });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(this, sessionId);
    this.pages.set(sessionId, page);
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await page.send(`${domain}.enable`);
    return page;
  }
  async close() {
    this.process.removeAllListeners('exit');
    const gone = new Promise((resolve) => this.process.on('exit', resolve));
    this.send('Browser.close').catch(() => {});
    await gone;
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

class Page {
  problems = [];  // errors of scripts, and what the policy refused
  requests = [];  // addresses

  constructor(browser, session) {
    this.browser = browser;
    this.session = session;
  }
  send(method, params) {
    return this.browser.send(method, params, this.session);
  }
  event({ method, params }) {
    if (method === 'Runtime.exceptionThrown')
      this.problems.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === 'Log.entryAdded' && params.entry.level === 'error') this.problems.push(params.entry.text);
    if (method === 'Network.requestWillBeSent') this.requests.push(params.request.url);
    if (method === 'Page.javascriptDialogOpening') this.send('Page.handleJavaScriptDialog', { accept: true });
  }

  async open(url) {
    const loaded = this.until('document.readyState === "complete" && location.href !== "about:blank"');
    await this.send('Page.navigate', { url });
    await loaded;
  }
  // The value of an expression in the page.
  async value(expression) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate',
      { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description}`);
    return result.value;
  }
  // Waits until an expression is true.
  async until(expression) {
    const end = Date.now() + kPatience;
    for (;;) {
      if (await this.value(expression).catch(() => false)) return;
      if (Date.now() > end) throw new Error(`never true: ${expression}\n${await this.value('document.body.innerText')}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
  // A key as a keyboard sends it: 'Tab', 'Enter', 'a', with modifiers ['Shift'].
  async press(key, modifiers = []) {
    const codes = { Enter: [13, '\r'], Tab: [9, ''], Escape: [27, ''], ' ': [32, ' '], Backspace: [8, ''] };
    const [windowsVirtualKeyCode, text] = codes[key] ?? [key.toUpperCase().charCodeAt(0), key];
    const flags = modifiers.includes('Shift') ? 8 : 0;
    const common = { key, windowsVirtualKeyCode, modifiers: flags };
    await this.send('Input.dispatchKeyEvent', { type: text ? 'keyDown' : 'rawKeyDown', text, ...common });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...common });
  }
  async type(text) {
    await this.send('Input.insertText', { text });
  }
  // Presses Tab until an element has the focus.
  async tabTo(selector, most = 60) {
    for (let i = 0; i < most; ++i) {
      if (await this.value(`document.activeElement.matches(${JSON.stringify(selector)})`)) return;
      await this.press('Tab');
    }
    throw new Error(`Tab never reaches ${selector}`);
  }
  async size(width, height, mobile = false) {
    await this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile });
  }
  async scheme(value) {
    await this.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value }] });
  }
  async screenshot() {
    const { data } = await this.send('Page.captureScreenshot', { format: 'png' });
    return Buffer.from(data, 'base64');
  }
}
