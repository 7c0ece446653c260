// What the browser keeps: chats, settings, the theme. Nothing leaves it but the requests themselves.
const kChats = 'rose.chats', kSettings = 'rose.settings', kTheme = 'rose.theme';
const kMostChats = 100;

function read(name, otherwise) {
  try { return JSON.parse(localStorage.getItem(name)) ?? otherwise; } catch { return otherwise; }
}
function write(name, value) {
  try { localStorage.setItem(name, JSON.stringify(value)); return true; } catch { return false; }
}

// A chat is {id, title, messages, changed}; messages are the API's, with what the page adds under `page`.
const known = read(kChats, []);
let chats = Array.isArray(known) ? known.filter((chat) => chat && Array.isArray(chat.messages)) : [];

export const allChats = () => chats;

export function keep(chat) {
  chat.changed = Date.now();
  chats = [chat, ...chats.filter((other) => other.id !== chat.id)].slice(0, kMostChats);
  while (!write(kChats, chats) && chats.length > 1) chats.pop();  // full: the oldest goes
}
export function remove(id) {
  chats = chats.filter((chat) => chat.id !== id);
  write(kChats, chats);
}
export function removeAll() {
  chats = [];
  write(kChats, chats);
}

// The settings are the controls of the page themselves, by id; a key is not kept beyond the tab.
export function restoreSettings(controls) {
  const kept = read(kSettings, {});
  for (const control of controls) {
    if (control.id === 'key') control.value = sessionStorage.getItem('rose.key') ?? '';
    else if (control.type === 'checkbox') control.checked = kept[control.id] === true;
    else if (typeof kept[control.id] === 'string') control.value = kept[control.id];
  }
}
export function keepSettings(controls) {
  const kept = {};
  for (const control of controls) {
    if (control.id === 'key') sessionStorage.setItem('rose.key', control.value);
    else kept[control.id] = control.type === 'checkbox' ? control.checked : control.value;
  }
  write(kSettings, kept);
}

// auto, light or dark, in turn.
export function applyTheme(button, turn = false) {
  const themes = ['auto', 'light', 'dark'];
  let theme = read(kTheme, 'auto');
  if (!themes.includes(theme)) theme = 'auto';
  if (turn) {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    write(kTheme, theme);
  }
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  button.textContent = `Theme: ${theme}`;
}
