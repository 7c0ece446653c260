#!/usr/bin/env python3
"""Compares rose with Hugging Face's transformers on a model of gpt-oss's sizes with a few layers.

    python3 tools/compare_transformers.py gpt-oss-20b/config.json --rose build-cuda/rose --device cuda

Makes a checkpoint in the published layout (generated weights, experts in MXFP4) from the sizes in config.json,
lets rose and transformers read the same files, feeds both the same tokens, and compares logits. Needs torch,
transformers, safetensors and accelerate; some 10 GB of disk and, at 5,000 tokens, 60 GB of GPU memory.

What makes transformers faithful: attention in plain torch ("eager", the one that knows sinks), experts dequantised
from MXFP4 and multiplied in the type of the model, no TF32. Its float32 is what everything is measured against.
Fails where the median row of rose is further from it than docs/numbers.md allows a whole model, or all rows together
are further than both that and transformers' own bfloat16 are: with rounded activations a near tie of the router may
send a token to another expert, and generated routers have many.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys

import numpy as np
import torch
from safetensors.torch import save_file

# What a recipe of rose may differ by from float32, as docs/numbers.md says of the whole model.
TOLERANCE = {"f32": 1e-4, "bf16": 2e-2}


def make_checkpoint(folder, sizes, layers, device, seed=1):
    """Statistics that keep activations at the size they have in trained models: matrices of deviation 1/sqrt(columns)."""
    folder.mkdir(parents=True, exist_ok=True)
    config = dict(sizes, num_hidden_layers=layers, layer_types=["sliding_attention", "full_attention"] * (layers // 2))
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    random = torch.Generator(device).manual_seed(seed)
    tensors = {}

    def normal(name, *shape, mean=0.0, deviation=None):
        deviation = 1 / math.sqrt(shape[-1]) if deviation is None else deviation
        values = torch.randn(*shape, generator=random, device=device) * deviation + mean
        tensors[name] = values.to(torch.bfloat16).cpu()

    def mxfp4(name, experts, rows, columns):
        blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16), generator=random, device=device, dtype=torch.uint8)
        # Random codes have a mean square of 68.5 / 8; exponents of neighbouring blocks spread over four binades.
        middle = 127 - round(math.log2(math.sqrt(68.5 / 8 * 1.5 * columns)))
        spread = torch.tensor([-2, -1, 0, 0, 0, 0, 1, 1], device=device)
        draw = torch.randint(0, 8, (experts, rows, columns // 32), generator=random, device=device)
        tensors[name + "_blocks"] = blocks.cpu()
        tensors[name + "_scales"] = (middle + spread[draw]).to(torch.uint8).cpu()

    hidden, ffn, experts = config["hidden_size"], config["intermediate_size"], config["num_local_experts"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    normal("model.embed_tokens.weight", config["vocab_size"], hidden, deviation=1)
    normal("lm_head.weight", config["vocab_size"], hidden)
    normal("model.norm.weight", hidden, mean=1, deviation=0.1)
    for layer in range(layers):
        at = f"model.layers.{layer}."
        normal(at + "input_layernorm.weight", hidden, mean=1, deviation=0.1)
        normal(at + "post_attention_layernorm.weight", hidden, mean=1, deviation=0.1)
        for name, rows, columns in (("q", queries, hidden), ("k", keys, hidden), ("v", keys, hidden), ("o", hidden, queries)):
            normal(at + f"self_attn.{name}_proj.weight", rows, columns)
            normal(at + f"self_attn.{name}_proj.bias", rows, deviation=0.1)
        normal(at + "self_attn.sinks", config["num_attention_heads"], deviation=1)
        normal(at + "mlp.router.weight", experts, hidden)
        normal(at + "mlp.router.bias", experts, deviation=0.1)
        mxfp4(at + "mlp.experts.gate_up_proj", experts, 2 * ffn, hidden)
        normal(at + "mlp.experts.gate_up_proj_bias", experts, 2 * ffn, deviation=0.1)
        mxfp4(at + "mlp.experts.down_proj", experts, hidden, ffn)
        normal(at + "mlp.experts.down_proj_bias", experts, hidden, deviation=0.1)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: "model.safetensors" for name in tensors}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    print(f"{folder}: {layers} layers, {(folder / 'model.safetensors').stat().st_size / 1e9:.2f} GB", flush=True)


def transformers_logits(folder, dtype, texts, rows, device):
    from transformers import AutoModelForCausalLM, Mxfp4Config
    torch.backends.cuda.matmul.allow_tf32 = False
    model = AutoModelForCausalLM.from_pretrained(folder, quantization_config=Mxfp4Config(dequantize=True), dtype=dtype,
                                                 attn_implementation="eager").to(dtype).to(device).eval()
    model.set_experts_implementation("eager")
    found = []
    with torch.no_grad():
        for text in texts:
            logits = model(torch.tensor([text], device=device), use_cache=False, logits_to_keep=rows).logits[0]
            found.append(logits.float().cpu().numpy())
    return found


def rose_logits(rose, folder, recipe, device, text, rows):
    ids, out = folder / "ids.txt", folder / "logits.npy"
    ids.write_text(" ".join(map(str, text)))
    subprocess.run([rose, "logits", folder, "--input", ids, "--output", out, "--last", str(rows), "--recipe", recipe,
                    "--device", device], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return np.load(out)


def compare(name, tokens, got, want, tolerance=None, theirs=None):
    error = np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)
    together = np.linalg.norm(got - want) / np.linalg.norm(want)
    same_top = np.mean(got.argmax(1) == want.argmax(1))
    least = 0 if theirs is None else np.linalg.norm(theirs - want) / np.linalg.norm(want)
    fits = tolerance is None or (np.median(error) <= tolerance and together <= max(tolerance, least))
    print(f"| {name} | {tokens} | {together:.1e} | {np.median(error):.1e} | {error.max():.1e} | {same_top:.4f} | "
          f"{'' if tolerance is None else 'within' if fits else 'OVER'} {'' if tolerance is None else tolerance} |", flush=True)
    return fits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=pathlib.Path, help="config.json with the sizes")
    parser.add_argument("--rose", default="build/rose")
    parser.add_argument("--device", default="cuda", help="of rose")
    parser.add_argument("--recipes", default="f32,bf16", help="of rose; those beside f32 and bf16 are shown, not judged")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--tokens", default="300,5000", help="lengths of the texts")
    parser.add_argument("--rows", type=int, default=256, help="of the last tokens, compared")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/compare_transformers"))
    options = parser.parse_args()
    torch_device = "cuda" if torch.cuda.is_available() else "cpu"

    sizes = json.loads(options.config.read_text())
    make_checkpoint(options.work, sizes, options.layers, torch_device)
    lengths = [int(length) for length in options.tokens.split(",")]
    random = np.random.default_rng(7)
    texts = [random.integers(0, sizes["vocab_size"], length).tolist() for length in lengths]
    want = transformers_logits(options.work, torch.float32, texts, options.rows, torch_device)
    torch.cuda.empty_cache()
    theirs = transformers_logits(options.work, torch.bfloat16, texts, options.rows, torch_device)
    torch.cuda.empty_cache()
    print("| against transformers in float32 | tokens | error of all rows | median row | worst row | same top | tolerance |")
    print("|---|---|---|---|---|---|---|")
    fits = True
    for i, length in enumerate(lengths):
        compare("transformers, bfloat16", length, theirs[i], want[i])
        for recipe in options.recipes.split(","):
            got = rose_logits(options.rose, options.work, recipe, options.device, texts[i], options.rows)
            fits &= compare(f"rose, {recipe}", length, got, want[i], TOLERANCE.get(recipe),
                            None if recipe == "f32" else theirs[i])
    sys.exit(not fits)


if __name__ == "__main__":
    main()
