#!/usr/bin/env python3
"""Tiny, dependency-free oracle for the gpt-oss forward pass.

  python3 tiny_reference.py                 print the golden numbers
  python3 tiny_reference.py --write DIR     also write an HF-layout checkpoint
                                            (config.json, model.safetensors, index) and expected.json

Every weight is a closed-form function of (tensor name, element index), so a C++ test may
regenerate them instead of reading the files. All maths here is float64 on the exactly decoded
weights ("exact"), or float64 with rounding to bfloat16 where the torch reference stores bfloat16
("bf16"). An engine that accumulates in f32 should match "exact" to ~1e-4 if its activations are
f32 and to ~|exact-bf16| if its activations are bf16.
"""
import json, math, os, struct, sys

CFG = dict(vocab=64, hidden=64, inter=64, head_dim=16, heads=4, kv=2, layers=2, experts=4, topk=2,
           window=4, theta=150000.0, factor=32.0, alpha=1.0, beta=32.0, ctx0=4096, eps=1e-5, limit=7.0)
PROMPT = [1, 5, 9, 2, 63, 17, 33, 8, 40, 12]
M64 = (1 << 64) - 1

def stream(name):
    """FNV-1a 64 of the name seeds splitmix64; element i uses the i-th output (0-based)."""
    h = 0xcbf29ce484222325
    for b in name.encode():
        h = ((h ^ b) * 0x100000001b3) & M64
    while True:
        h = (h + 0x9E3779B97F4A7C15) & M64
        z = h
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M64
        yield z ^ (z >> 31)

def shapes(c):
    H, I, D, E = c['hidden'], c['inter'], c['head_dim'], c['experts']
    q, k = c['heads'] * D, c['kv'] * D
    out = {'model.embed_tokens.weight': ('BF16', [c['vocab'], H])}
    for l in range(c['layers']):
        p = f'model.layers.{l}.'
        out.update({
            p + 'input_layernorm.weight': ('BF16', [H]),
            p + 'self_attn.q_proj.weight': ('BF16', [q, H]), p + 'self_attn.q_proj.bias': ('BF16', [q]),
            p + 'self_attn.k_proj.weight': ('BF16', [k, H]), p + 'self_attn.k_proj.bias': ('BF16', [k]),
            p + 'self_attn.v_proj.weight': ('BF16', [k, H]), p + 'self_attn.v_proj.bias': ('BF16', [k]),
            p + 'self_attn.o_proj.weight': ('BF16', [H, q]), p + 'self_attn.o_proj.bias': ('BF16', [H]),
            p + 'self_attn.sinks': ('BF16', [c['heads']]),
            p + 'post_attention_layernorm.weight': ('BF16', [H]),
            p + 'mlp.router.weight': ('BF16', [E, H]), p + 'mlp.router.bias': ('BF16', [E]),
            p + 'mlp.experts.gate_up_proj_blocks': ('U8', [E, 2 * I, H // 32, 16]),
            p + 'mlp.experts.gate_up_proj_scales': ('U8', [E, 2 * I, H // 32]),
            p + 'mlp.experts.gate_up_proj_bias': ('BF16', [E, 2 * I]),
            p + 'mlp.experts.down_proj_blocks': ('U8', [E, H, I // 32, 16]),
            p + 'mlp.experts.down_proj_scales': ('U8', [E, H, I // 32]),
            p + 'mlp.experts.down_proj_bias': ('BF16', [E, H])})
    out['model.norm.weight'] = ('BF16', [H])
    out['lm_head.weight'] = ('BF16', [c['vocab'], H])
    return out

def values(name, dtype, shape):
    n = math.prod(shape); s = stream(name); o = []
    for _ in range(n):
        z = next(s)
        if name.endswith('_blocks'): o.append(z >> 56)
        elif name.endswith('_scales'): o.append(120 + (z >> 62))
        elif 'norm' in name: o.append(0.75 + (z >> 60) / 32)
        elif name.endswith('sinks'): o.append(((z >> 57) - 64) / 32)
        else: o.append(((z >> 57) - 64) / 256)
    return o

def bf16_bits(x):
    u = struct.unpack('<I', struct.pack('<f', x))[0]
    return ((u + 0x7fff + ((u >> 16) & 1)) >> 16) & 0xffff

def bf16(x):
    return struct.unpack('<f', struct.pack('<I', bf16_bits(x) << 16))[0]

FP4 = [0., .5, 1., 1.5, 2., 3., 4., 6., -0., -.5, -1., -1.5, -2., -3., -4., -6.]

class Model:
    def __init__(self, c):
        self.c = c; self.t = {n: values(n, d, s) for n, (d, s) in shapes(c).items()}
        lo, hi = ((c['head_dim'] / 2) * math.log(c['ctx0'] / (b * 2 * math.pi)) / math.log(c['theta'])
                  for b in (c['beta'], c['alpha']))
        self.conc = 0.1 * math.log(c['factor']) + 1.0
        self.inv = []
        for k in range(c['head_dim'] // 2):
            f = c['theta'] ** (2 * k / c['head_dim'])
            m = 1 - min(max((k - lo) / (hi - lo), 0.0), 1.0)
            self.inv.append((1 - m) / (c['factor'] * f) + m / f)
        self.low, self.high = lo, hi

    def rows(self, name, first, count, width):
        t = self.t[name]; return [t[(first + r) * width:(first + r + 1) * width] for r in range(count)]

    def mx_rows(self, name, e, nrows, width):
        b, s = self.t[name + '_blocks'], self.t[name + '_scales']; g = width // 32; out = []
        for r in range(nrows):
            row = []
            for j in range(g):
                i = (e * nrows + r) * g + j; sc = 2.0 ** (s[i] - 127)
                for y in b[i * 16:(i + 1) * 16]:
                    row += [FP4[y & 15] * sc, FP4[y >> 4] * sc]
            out.append(row)
        return out

    def forward(self, ids, rnd=lambda x: x, trace=None):
        c = self.c; t = self.t; H, D, I = c['hidden'], c['head_dim'], c['inter']; G = c['heads'] // c['kv']
        lin = lambda W, b, x: [rnd(sum(w * v for w, v in zip(r, x)) + (b[i] if b else 0.0)) for i, r in enumerate(W)]
        def norm(x, w):
            s = 1 / math.sqrt(sum(v * v for v in x) / len(x) + c['eps']); return [rnd(v * s * g) for v, g in zip(x, w)]
        def rope(v, p):
            h = D // 2; o = [0.0] * D
            for k in range(h):
                a = p * self.inv[k]; co, si = rnd(math.cos(a) * self.conc), rnd(math.sin(a) * self.conc)
                o[k] = rnd(v[k] * co - v[k + h] * si); o[k + h] = rnd(v[k + h] * co + v[k] * si)
            return o
        X = [[v for v in self.rows('model.embed_tokens.weight', i, 1, H)[0]] for i in ids]
        for l in range(c['layers']):
            p = f'model.layers.{l}.'; a = p + 'self_attn.'; win = c['window'] if l % 2 == 0 else 0
            Wq, Wk, Wv = (self.rows(a + n + '_proj.weight', 0, m * D, H) for n, m in (('q', c['heads']), ('k', c['kv']), ('v', c['kv'])))
            Wo = self.rows(a + 'o_proj.weight', 0, H, c['heads'] * D)
            Q, K, V = [], [], []
            for pos, x in enumerate(X):
                n = norm(x, t[p + 'input_layernorm.weight'])
                q, k, v = (lin(W, t[a + m + '_proj.bias'], n) for W, m in ((Wq, 'q'), (Wk, 'k'), (Wv, 'v')))
                Q.append([rope(q[h * D:(h + 1) * D], pos) for h in range(c['heads'])])
                K.append([rope(k[h * D:(h + 1) * D], pos) for h in range(c['kv'])])
                V.append([v[h * D:(h + 1) * D] for h in range(c['kv'])])
            for i in range(len(X)):
                o = []
                for h in range(c['heads']):
                    lo = max(0, i - win + 1) if win else 0
                    s = [sum(x * y for x, y in zip(Q[i][h], K[j][h // G])) / math.sqrt(D) for j in range(lo, i + 1)]
                    sink = t[a + 'sinks'][h]; m = max(s + [sink]); w = [math.exp(y - m) for y in s]
                    z = sum(w) + math.exp(sink - m)
                    o += [rnd(sum(w[j] * V[lo + j][h // G][d] for j in range(len(w))) / z) for d in range(D)]
                y = lin(Wo, t[a + 'o_proj.bias'], o); X[i] = [rnd(u + v) for u, v in zip(X[i], y)]
            Wr = self.rows(p + 'mlp.router.weight', 0, c['experts'], H); e_ = p + 'mlp.experts.'
            W1 = [self.mx_rows(e_ + 'gate_up_proj', e, 2 * I, H) for e in range(c['experts'])]
            W2 = [self.mx_rows(e_ + 'down_proj', e, H, I) for e in range(c['experts'])]
            for i in range(len(X)):
                n = norm(X[i], t[p + 'post_attention_layernorm.weight'])
                g = lin(Wr, t[p + 'mlp.router.bias'], n)
                top = sorted(range(c['experts']), key=lambda e: (-g[e], e)); sel = top[:c['topk']]
                ex = [math.exp(g[e] - g[sel[0]]) for e in sel]; wt = [rnd(v / sum(ex)) for v in ex]
                if trace is not None: trace.append((l, i, sel, [round(v, 6) for v in wt], g[sel[-1]] - g[top[c['topk']]]))
                acc = [0.0] * H
                for e, w in zip(sel, wt):
                    gu = lin(W1[e], t[e_ + 'gate_up_proj_bias'][e * 2 * I:(e + 1) * 2 * I], n); act = []
                    for r in range(I):
                        ga, up = min(gu[2 * r], c['limit']), max(-c['limit'], min(c['limit'], gu[2 * r + 1]))
                        act.append(rnd(rnd(ga / (1 + math.exp(-1.702 * ga))) * rnd(up + 1)))
                    dn = lin(W2[e], t[e_ + 'down_proj_bias'][e * H:(e + 1) * H], act)
                    acc = [u + w * v for u, v in zip(acc, dn)]
                X[i] = [rnd(u + rnd(v)) for u, v in zip(X[i], acc)]
        Wl = self.rows('lm_head.weight', 0, c['vocab'], H)
        return [lin(Wl, None, norm(x, t['model.norm.weight'])) for x in X]

def write(c, m, d, expected):
    os.makedirs(d, exist_ok=True)
    head, blob = {'__metadata__': {'format': 'pt'}}, bytearray()
    for n, (dt, sh) in shapes(c).items():
        raw = bytes(m.t[n]) if dt == 'U8' else b''.join(struct.pack('<H', bf16_bits(v)) for v in m.t[n])
        head[n] = {'dtype': dt, 'shape': sh, 'data_offsets': [len(blob), len(blob) + len(raw)]}; blob += raw
    h = json.dumps(head, separators=(',', ':')).encode(); h += b' ' * (-len(h) % 8)
    open(os.path.join(d, 'model.safetensors'), 'wb').write(struct.pack('<Q', len(h)) + h + blob)
    cfg = {"architectures": ["GptOssForCausalLM"], "attention_bias": True, "attention_dropout": 0.0, "eos_token_id": 2,
           "experts_per_token": c['topk'], "head_dim": c['head_dim'], "hidden_act": "silu", "hidden_size": c['hidden'],
           "initial_context_length": c['ctx0'], "initializer_range": 0.02, "intermediate_size": c['inter'],
           "layer_types": ["sliding_attention" if l % 2 == 0 else "full_attention" for l in range(c['layers'])],
           "max_position_embeddings": int(c['ctx0'] * c['factor']), "model_type": "gpt_oss", "num_attention_heads": c['heads'],
           "num_experts_per_tok": c['topk'], "num_hidden_layers": c['layers'], "num_key_value_heads": c['kv'],
           "num_local_experts": c['experts'], "output_router_logits": False, "pad_token_id": 0,
           "quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                               "model.embed_tokens", "lm_head"], "quant_method": "mxfp4"},
           "rms_norm_eps": c['eps'], "rope_scaling": {"beta_fast": c['beta'], "beta_slow": c['alpha'], "factor": c['factor'],
           "original_max_position_embeddings": c['ctx0'], "rope_type": "yarn", "truncate": False}, "rope_theta": int(c['theta']),
           "router_aux_loss_coef": 0.9, "sliding_window": c['window'], "swiglu_limit": c['limit'], "tie_word_embeddings": False,
           "use_cache": True, "vocab_size": c['vocab']}
    json.dump(cfg, open(os.path.join(d, 'config.json'), 'w'), indent=2)
    json.dump({"metadata": {"total_size": len(blob)}, "weight_map": {n: "model.safetensors" for n in shapes(c)}},
              open(os.path.join(d, 'model.safetensors.index.json'), 'w'), indent=2)
    json.dump(expected, open(os.path.join(d, 'expected.json'), 'w'), indent=1)

if __name__ == '__main__':
    m = Model(CFG); trace = []
    L = m.forward(PROMPT, trace=trace); B = m.forward(PROMPT, rnd=bf16)
    ids = list(PROMPT)
    for _ in range(8):
        z = m.forward(ids)[-1]; ids.append(max(range(len(z)), key=lambda i: (z[i], -i)))
    print('low/high/conc', m.low, m.high, m.conc); print('inv_freq', ['%.9e' % v for v in m.inv])
    e0 = m.t['model.embed_tokens.weight'][:6]; print('embed[0][:6]', e0)
    print('l0 gate_up blocks[:8]', m.t['model.layers.0.mlp.experts.gate_up_proj_blocks'][:8], 'scales[:4]', m.t['model.layers.0.mlp.experts.gate_up_proj_scales'][:4])
    print('l0 sinks', m.t['model.layers.0.self_attn.sinks'])
    for tr in trace: print('route layer %d pos %d experts %s weights %s margin %.4f' % tr)
    for pos in (0, 5, 9): print('exact logits pos', pos, ['%.6f' % v for v in L[pos][:8]], 'argmax', max(range(64), key=lambda i: L[pos][i]), 'sum %.6f' % sum(L[pos]))
    print('bf16  logits pos 9', ['%.6f' % v for v in B[9][:8]], 'argmax', max(range(64), key=lambda i: B[9][i]))
    print('max |exact-bf16|', '%.4f' % max(abs(a - b) for x, y in zip(L, B) for a, b in zip(x, y)))
    print('greedy', ids[len(PROMPT):])
    if '--write' in sys.argv:
        write(CFG, m, sys.argv[sys.argv.index('--write') + 1], {"prompt": PROMPT, "greedy": ids[len(PROMPT):], "logits_exact": L, "logits_bf16": B})
