#!/usr/bin/env python3
"""Trains the demo model: a small OLMoE-architecture language model for prefill-only tasks.

One file, seeded, CPU only (torch >= 1.13, numpy). All tasks share one next-token model and are answered from the
logits of the prompt alone:
  spam    "Message: {text}\\nSpam:"                              one token, yes | no
  intent  "Request: {text}\\nIntent:"                            one token out of 20 names
  topic   "Request: {text}\\nTopic:"                             the likeliest completion " {intent words}\\n" of the options given
  match   "Request: {text}\\nTopic: {intent words}\\nMatch:"     one token, yes | no; the logit difference ranks candidates
Plain prose is mixed in as ordinary language modelling.

  train.py tokenizer --data DATA --out run     learn the byte-level BPE
  train.py train     --data DATA --out run     train (resumes from run/ckpt.pt)
  train.py eval      --data DATA --out run --split test [--q4] [--items DIR]
"""
import argparse, functools, json, math, os, random, time, unicodedata
from collections import Counter, defaultdict
import numpy as np
import torch
import torch.nn.functional as F

CFG = dict(vocab_size=2048, d_model=128, n_layers=4, n_heads=4, n_experts=16, top_k=4, expert_ff=64,
           rms_eps=1e-5, rope_theta=10000.0, context_length=1024, norm_topk_prob=False,
           aux_coef=0.01, z_coef=0.001)
INTENTS = {  # 20 CLINC150 intents and the one-token answer each is scored by
    'balance': ' balance', 'transfer': ' transfer', 'freeze_account': ' freeze', 'pay_bill': ' bill',
    'report_fraud': ' fraud', 'recipe': ' recipe', 'calories': ' calories', 'restaurant_reservation': ' table',
    'weather': ' weather', 'alarm': ' alarm', 'timer': ' timer', 'play_music': ' music',
    'shopping_list': ' shopping', 'traffic': ' traffic', 'directions': ' directions', 'book_flight': ' flight',
    'book_hotel': ' hotel', 'translate': ' translate', 'definition': ' definition', 'tell_joke': ' joke'}
YN = [' yes', ' no']
BOS, PAD = 0, 1
SPECIAL = ['<|endoftext|>', '<|padding|>']


# ---------------------------------------------------------------- tokenizer (GPT-2 style byte-level BPE)
def byte_chars():
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, extra = {b: chr(b) for b in keep}, 0
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + extra)
            extra += 1
    return table


B2C = byte_chars()


@functools.lru_cache(maxsize=None)
def kind(ch):
    if ch.isspace():
        return 's'
    c = unicodedata.category(ch)[0]
    return 'l' if c == 'L' else 'n' if c == 'N' else 'o'


def pretokenize(t):
    r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
    out, i, n = [], 0, len(t)
    while i < n:
        hit = next((s for s in ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d") if t.startswith(s, i)), None)
        if hit:
            out.append(hit)
            i += len(hit)
            continue
        j = i + 1 if t[i] == ' ' and i + 1 < n and kind(t[i + 1]) != 's' else i
        k = kind(t[j])
        e = j
        while e < n and kind(t[e]) == k:
            e += 1
        if k == 's' and e < n and e - i > 1:
            e -= 1  # the last space belongs to what follows
        out.append(t[i:e])
        i = e
    return out


class Tokenizer:
    def __init__(self, tokens, merges):
        self.tokens, self.merges = tokens, merges
        self.id = {t: i for i, t in enumerate(tokens)}
        self.rank = {tuple(m.split(' ')): i for i, m in enumerate(merges)}
        self.word, self.encode = functools.lru_cache(None)(self._word), functools.lru_cache(None)(self._encode)

    def _word(self, w):
        p = [B2C[b] for b in w.encode('utf-8')]
        while len(p) > 1:
            r, i = min((self.rank.get((p[i], p[i + 1]), 1 << 30), i) for i in range(len(p) - 1))
            if r == 1 << 30:
                break
            p[i:i + 2] = [p[i] + p[i + 1]]
        return tuple(self.id[x] for x in p)

    def _encode(self, text):
        return tuple(i for w in pretokenize(text) for i in self.word(w))

    def label(self, s):
        ids = self.encode(s)
        assert len(ids) == 1, (s, ids)
        return ids[0]

    def decode(self, ids):
        back = {c: b for b, c in B2C.items()}
        return bytes(back[c] for i in ids for c in self.tokens[i]).decode('utf-8')

    @staticmethod
    def load(path):
        d = json.load(open(path, encoding='utf-8'))
        return Tokenizer(d['tokens'], d['merges'])


def learn_bpe(words, size):
    seqs = [[B2C[b] for b in w.encode('utf-8')] for w in words]
    cnt = list(words.values())
    pairs, where = Counter(), defaultdict(set)
    for k, s in enumerate(seqs):
        for p in zip(s, s[1:]):
            pairs[p] += cnt[k]
            where[p].add(k)
    tokens = SPECIAL + [B2C[b] for b in range(256)]
    have, merges = set(tokens), []
    while len(tokens) < size:
        best = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(' '.join(best))
        new = best[0] + best[1]
        if new not in have:
            have.add(new)
            tokens.append(new)
        for k in list(where[best]):
            s = seqs[k]
            for p in zip(s, s[1:]):
                pairs[p] -= cnt[k]
            i, o = 0, []
            while i < len(s):
                if i + 1 < len(s) and (s[i], s[i + 1]) == best:
                    o.append(new)
                    i += 2
                else:
                    o.append(s[i])
                    i += 1
            seqs[k] = o
            for p in zip(o, o[1:]):
                pairs[p] += cnt[k]
                where[p].add(k)
        del pairs[best]
    return tokens, merges


# ---------------------------------------------------------------- data
def rows(data, name):
    return [json.loads(x) for x in open(f'{data}/{name}.jsonl', encoding='utf-8')]


def nice(intent):
    return intent.replace('_', ' ')


def p_spam(t): return ['Message:', ' ' + t, '\nSpam:']
def p_intent(t): return ['Request:', ' ' + t, '\nIntent:']
def p_topic(t): return ['Request:', ' ' + t, '\nTopic:']
def p_match(t, i): return ['Request:', ' ' + t, '\nTopic:', ' ' + nice(i), '\nMatch:']


class Tasks:
    """Prompt builder. Evaluation items are fixed by the seed and the split."""
    def __init__(self, data, tok):
        self.data, self.tok = data, tok
        self.yn, self.names = [[tok.label(x)] for x in YN], [[tok.label(x)] for x in INTENTS.values()]
        assert len({x[0] for x in self.names}) == len(INTENTS)
        self.order = list(INTENTS)
        self.all = sorted({r['intent'] for r in rows(data, 'clinc150/train')} - {'oos'})
        self.word = {i: list(tok.encode(' ' + nice(i) + '\n')) for i in self.all}

    def ids(self, parts):
        return [BOS] + [i for p in parts for i in self.tok.encode(p)]

    def train_item(self, rng, task, sms, clinc, small):
        """one (prompt ids, answer ids) pair"""
        if task == 'spam':
            r = rng.choice(sms[rng.random() < 0.35])
            return self.ids(p_spam(r['text'])), self.yn[r['label'] != 'spam']
        if task == 'intent':
            r = rng.choice(small)
            return self.ids(p_intent(r['text'])), self.names[self.order.index(r['intent'])]
        r = rng.choice(clinc)
        if task == 'topic':
            return self.ids(p_topic(r['text'])), self.word[r['intent']]
        other = rng.random() < 0.5
        i = rng.choice([x for x in self.all if x != r['intent']]) if other else r['intent']
        return self.ids(p_match(r['text'], i)), self.yn[other]

    def candidates(self, rng, intent, n):
        o = rng.sample([x for x in self.all if x != intent], n)
        a = rng.randrange(n)
        o[a] = intent
        return o, a

    def eval_items(self, split, limit=None, base=None):
        """per task a list of (prompt parts, answers as token lists, index of the right one)"""
        rng, d = random.Random(20260906), base or self.data
        sms, clinc = rows(d, f'sms_spam/{split}'), [r for r in rows(d, f'clinc150/{split}') if r['intent'] != 'oos']
        cut = lambda v, n: rng.sample(v, min(n, len(v))) if limit else v
        out = {'spam': [(p_spam(r['text']), self.yn, int(r['label'] != 'spam')) for r in cut(sms, limit)],
               'intent': [(p_intent(r['text']), self.names, self.order.index(r['intent'])) for r in cut([r for r in clinc if r['intent'] in INTENTS], limit)],
               'topic4': [], 'match': [], 'rerank': []}
        for r in cut(clinc, limit):
            o, a = self.candidates(rng, r['intent'], 4)
            out['topic4'].append((p_topic(r['text']), [self.word[i] for i in o], a))
            other = rng.random() < 0.5
            out['match'].append((p_match(r['text'], o[(a + 1) % 4] if other else r['intent']), self.yn, int(other)))
        for r in rng.sample(clinc, 200 if not limit else 20):  # 20 candidates, one right
            o, a = self.candidates(rng, r['intent'], 20)
            out['rerank'] += [(p_match(r['text'], i), self.yn, int(k != a)) for k, i in enumerate(o)]
        return out


def prose_ids(path, tok):
    return [i for line in open(path, encoding='utf-8') for i in tok.encode(line)]


# ---------------------------------------------------------------- model
def fake_q4_0(w):
    """Round-trip through GGUF Q4_0 (blocks of 32 along the last axis), straight-through gradient."""
    b = w.detach().reshape(-1, 32)
    ext = b.gather(1, b.abs().argmax(1, keepdim=True))
    d = ext / -8
    inv = torch.where(d == 0, torch.zeros_like(d), 1 / d)
    q = torch.clamp(torch.floor(b * inv + 8.5), 0, 15) - 8
    return w + ((q * d.half().float()).reshape(w.shape) - w).detach()


def rms(x, g, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * g


class OLMoE(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.q4, self.drop = c, False, 0.0
        D, E, FF, L = c['d_model'], c['n_experts'], c['expert_ff'], c['n_layers']
        def w(*s, std=0.02): return torch.nn.Parameter(torch.randn(*s) * std)
        P, so = {}, 0.02 / math.sqrt(2 * L) * 3
        P['token_embd'], P['output'], P['output_norm'] = w(c['vocab_size'], D, std=0.05), w(c['vocab_size'], D), torch.nn.Parameter(torch.ones(D))
        for i in range(L):
            for n in ('attn_norm', 'attn_q_norm', 'attn_k_norm', 'ffn_norm'):
                P[f'blk_{i}_{n}'] = torch.nn.Parameter(torch.ones(D))
            for n in ('attn_q', 'attn_k', 'attn_v'):
                P[f'blk_{i}_{n}'] = w(D, D, std=0.06)
            P[f'blk_{i}_attn_output'] = w(D, D, std=so)
            P[f'blk_{i}_ffn_gate_inp'] = w(E, D, std=0.05)
            P[f'blk_{i}_ffn_gate_exps'], P[f'blk_{i}_ffn_up_exps'] = w(E, FF, D, std=0.06), w(E, FF, D, std=0.06)
            P[f'blk_{i}_ffn_down_exps'] = w(E, D, FF, std=so * 2)
        self.p = torch.nn.ParameterDict(P)

    def w(self, name):
        w = self.p[name]  # norms and the router stay F32; the head is Q8_0 in the quantised file
        return fake_q4_0(w) if self.q4 and w.dim() > 1 and name != 'output' and 'gate_inp' not in name else w

    def forward(self, ids):
        c, (B, T) = self.c, ids.shape
        D, H, K, E = c['d_model'], c['n_heads'], c['top_k'], c['n_experts']
        hd = D // H
        drop = lambda t: F.dropout(t, self.drop) if self.training and self.drop else t
        x = drop(F.embedding(ids, self.w('token_embd')))
        f = c['rope_theta'] ** (-torch.arange(0, hd, 2, dtype=torch.float32) / hd)
        ang = torch.arange(T, dtype=torch.float32)[:, None] * f[None]
        cos, sin = ang.cos().repeat(1, 2), ang.sin().repeat(1, 2)
        mask = torch.full((T, T), float('-inf')).triu(1)
        def rope(t):
            a, b = t.chunk(2, -1)
            return t * cos + torch.cat((-b, a), -1) * sin
        aux = 0.0
        for i in range(c['n_layers']):
            g = lambda n: self.w(f'blk_{i}_{n}')
            h = rms(x, g('attn_norm'), c['rms_eps'])
            q, k = rms(h @ g('attn_q').T, g('attn_q_norm'), c['rms_eps']), rms(h @ g('attn_k').T, g('attn_k_norm'), c['rms_eps'])
            v = h @ g('attn_v').T
            q, k, v = (t.view(B, T, H, hd).transpose(1, 2) for t in (q, k, v))
            s = torch.softmax(rope(q) @ rope(k).transpose(-1, -2) / math.sqrt(hd) + mask, -1)
            x = x + drop((s @ v).transpose(1, 2).reshape(B, T, D) @ g('attn_output').T)
            h = rms(x, g('ffn_norm'), c['rms_eps']).view(B * T, D)
            lr = h @ g('ffn_gate_inp').T
            pr = torch.softmax(lr, -1)
            wt, ix = pr.topk(K, -1)
            flat = ix.reshape(-1)
            order = flat.argsort()
            n = torch.bincount(flat, minlength=E)
            src = torch.div(order, K, rounding_mode='floor')
            parts = h[src].split(n.tolist())
            up = torch.cat((g('ffn_gate_exps'), g('ffn_up_exps')), 1).unbind(0)
            dn = g('ffn_down_exps').unbind(0)
            ys = []
            for e in range(E):
                a, b = (parts[e] @ up[e].T).chunk(2, -1)
                ys.append((F.silu(a) * b) @ dn[e].T)
            y = torch.cat(ys) * wt.reshape(-1)[order, None]
            x = x + drop(torch.zeros_like(h).index_add_(0, src, y).view(B, T, D))
            if self.training:
                aux = aux + c['aux_coef'] * E * (n / float(B * T * K) * pr.mean(0)).sum() + c['z_coef'] * torch.logsumexp(lr, -1).pow(2).mean()
        return rms(x, self.p['output_norm'], c['rms_eps']), aux

    def logits(self, h):
        return h @ self.w('output').T


# ---------------------------------------------------------------- evaluation
@torch.no_grad()
def evaluate(model, tasks, items, prose=None, window=256):
    was = model.training
    model.eval()
    res, raw = {}, {}
    for name, it in items.items():
        flat = []  # one row per (item, answer) that has to be run; one-token answers share a row
        for k, (parts, answers, gold) in enumerate(it):
            ids = [BOS] + list(tasks.tok.encode(''.join(parts)))
            assert ids == tasks.ids(parts)
            flat += [(k, None, ids)] if max(map(len, answers)) == 1 else [(k, j, ids + w[:-1]) for j, w in enumerate(answers)]
        sc = [[0.0] * len(x[1]) for x in it]
        flat.sort(key=lambda x: len(x[2]))
        for s in range(0, len(flat), 64):
            b = flat[s:s + 64]
            t = torch.full((len(b), len(b[-1][2])), PAD)
            for r, x in enumerate(b):
                t[r, :len(x[2])] = torch.tensor(x[2])
            h, _ = model(t)
            for r, (k, j, ids) in enumerate(b):
                if j is None:
                    lg = model.logits(h[r, len(ids) - 1])
                    sc[k] = [float(lg[w[0]]) for w in it[k][1]]
                else:
                    w = it[k][1][j]
                    lp = torch.log_softmax(model.logits(h[r, len(ids) - len(w):len(ids)]), -1)
                    sc[k][j] = float(lp[torch.arange(len(w)), torch.tensor(w)].sum())
        pred, gold = np.array([int(np.argmax(s)) for s in sc]), np.array([x[2] for x in it])
        res[name] = {'n': len(it), 'accuracy': float((pred == gold).mean())}
        if name == 'spam':
            tp, fp, fn = ((pred == 0) & (gold == 0)).sum(), ((pred == 0) & (gold == 1)).sum(), ((pred == 1) & (gold == 0)).sum()
            res[name].update(spam_precision=float(tp / max(tp + fp, 1)), spam_recall=float(tp / max(tp + fn, 1)), spam_f1=float(2 * tp / max(2 * tp + fp + fn, 1)),
                             majority=float(max(gold.mean(), 1 - gold.mean())))
        if name == 'rerank':
            m = np.array([s[0] - s[1] for s in sc]).reshape(-1, 20)
            rank = 1 + (m > m[np.arange(len(m)), gold.reshape(-1, 20).argmin(1)][:, None]).sum(1)
            res[name] = {'queries': len(m), 'candidates': 20, 'top1': float((rank == 1).mean()), 'mrr': float((1 / rank).mean()),
                         'ndcg@10': float(np.where(rank <= 10, 1 / np.log2(rank + 1), 0).mean())}
        raw[name] = sc
    if prose:
        ids, nb = prose
        nll, cnt = 0.0, 0
        for s in range(0, len(ids) - 1, window * 16):
            rws = [[BOS] + ids[k:k + window] for k in range(s, min(s + window * 16, len(ids)), window)]
            rws = [r for r in rws if len(r) == window + 1] or rws[:1]
            t = torch.tensor(rws)
            h, _ = model(t[:, :-1])
            nll += float(F.cross_entropy(model.logits(h).flatten(0, 1), t[:, 1:].flatten(), reduction='sum'))
            cnt += t[:, 1:].numel()
        res['prose'] = {'tokens': cnt, 'token_ppl': math.exp(nll / cnt), 'bits_per_byte': nll / cnt / math.log(2) * len(ids) / nb}
    model.train(was)
    return res, raw


# ---------------------------------------------------------------- commands
def cmd_tokenizer(a):
    words = Counter()
    for r in rows(a.data, 'sms_spam/train'):
        words.update(pretokenize(''.join(p_spam(r['text']))))
    for r in rows(a.data, 'clinc150/train') + rows(a.data, 'banking77/train'):
        words.update(pretokenize(''.join(p_match(r['text'], r['intent']))))
    words.update(pretokenize(open(f'{a.data}/prose/train.txt', encoding='utf-8').read()))
    for s in list(INTENTS.values()) + YN:  # every label must be one token
        assert len(pretokenize(s)) == 1
        words[s] += 4000
    tokens, merges = learn_bpe(words, CFG['vocab_size'])
    os.makedirs(a.out, exist_ok=True)
    json.dump({'tokens': tokens, 'merges': merges, 'special': SPECIAL, 'pre': 'gpt2 regex'}, open(f'{a.out}/tokenizer.json', 'w', encoding='utf-8'), ensure_ascii=False)
    tok = Tokenizer(tokens, merges)
    print(len(tokens), len(merges), [tok.label(s) for s in list(INTENTS.values()) + YN])


def cmd_train(a):
    torch.manual_seed(a.seed)
    torch.set_num_threads(a.threads)
    rng = random.Random(a.seed)
    tok = Tokenizer.load(f'{a.out}/tokenizer.json')
    tasks = Tasks(a.data, tok)
    sms = [[r for r in rows(a.data, 'sms_spam/train') if (r['label'] == 'spam') == s] for s in (False, True)]
    clinc = [r for r in rows(a.data, 'clinc150/train') if r['intent'] != 'oos']
    small = [r for r in clinc if r['intent'] in INTENTS]
    prose = torch.tensor(prose_ids(f'{a.data}/prose/train.txt', tok))
    dev, dev_prose = tasks.eval_items('dev', limit=300), prose_ids(f'{a.data}/prose/dev.txt', tok)
    dev_prose = (dev_prose, os.path.getsize(f'{a.data}/prose/dev.txt'))
    model = OLMoE(CFG)
    print('parameters', sum(p.numel() for p in model.parameters()), 'prose tokens', len(prose), flush=True)
    decay = [p for p in model.parameters() if p.dim() > 1]
    opt = torch.optim.AdamW([{'params': decay, 'weight_decay': a.wd}, {'params': [p for p in model.parameters() if p.dim() == 1], 'weight_decay': 0.0}],
                            lr=a.lr, betas=(0.9, 0.95), eps=1e-8)
    step, seen, spent, pool = 0, 0, 0.0, []
    if os.path.exists(f'{a.out}/ckpt.pt'):
        s = torch.load(f'{a.out}/ckpt.pt')
        model.load_state_dict(s['model'])
        opt.load_state_dict(s['opt'])
        step, seen, spent = s['step'], s['seen'], s['spent']
        rng.seed(a.seed + step)
    t0, last = time.time() - spent, time.time()
    while step < a.steps:
        warm, frac = min(1.0, (step + 1) / 100), step / a.steps
        for g in opt.param_groups:
            g['lr'] = a.lr * warm * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * frac)))
        model.train()
        model.drop, model.q4 = a.dropout, frac >= 1 - a.qat
        if rng.random() < 0.2:
            T = 1024 if frac > 0.9 and rng.random() < 0.5 else 256
            n = a.tokens // T
            o = [rng.randrange(len(prose) - T) for _ in range(n)]
            t = torch.stack([torch.cat((torch.tensor([BOS]), prose[k:k + T])) for k in o])
            wts = torch.ones(n, T) / (n * T)
        else:  # a pool of mixed items, sorted by length, cut into batches with little padding
            if not pool:
                it = [tasks.train_item(rng, rng.choices(('spam', 'intent', 'topic', 'match'), (0.2, 0.15, 0.35, 0.3))[0], sms, clinc, small) for _ in range(2000)]
                it.sort(key=lambda x: len(x[0]) + len(x[1]))
                cur = []
                for x in it:
                    if cur and (len(x[0]) + len(x[1])) * (len(cur) + 1) > a.tokens:
                        pool.append(cur)
                        cur = []
                    cur.append(x)
                pool.append(cur)
                rng.shuffle(pool)
            b = pool.pop()
            T = max(len(p) + len(w) for p, w in b) - 1
            t, wts = torch.full((len(b), T + 1), PAD), torch.zeros(len(b), T)
            for r, (p, w) in enumerate(b):
                n = len(p) + len(w)
                t[r, :n] = torch.tensor(p + w)
                wts[r, :len(p) - 1] = a.lm_weight / (len(b) * T)
                wts[r, len(p) - 1:n - 1] = 1.0 / len(b)
        h, aux = model(t[:, :-1])
        ce = F.cross_entropy(model.logits(h).flatten(0, 1), t[:, 1:].flatten(), reduction='none')
        loss = (ce * wts.flatten()).sum() + aux
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        step += 1
        seen += t.numel()
        if step % a.every == 0 or step == a.steps:
            res, _ = evaluate(model, tasks, dev, dev_prose)
            s = {k: round(v.get('accuracy', v.get('top1', v.get('token_ppl'))), 4) for k, v in res.items()}
            print(json.dumps({'step': step, 'tokens': seen, 'seconds': round(time.time() - t0), 'loss': round(float(loss), 3), 'dev': s}), flush=True)
        if time.time() - last > 120 or step == a.steps:
            last = time.time()
            torch.save({'model': model.state_dict(), 'opt': opt.state_dict(), 'step': step, 'seen': seen, 'spent': time.time() - t0}, f'{a.out}/ckpt.tmp')
            os.replace(f'{a.out}/ckpt.tmp', f'{a.out}/ckpt.pt')
    np.savez(f'{a.out}/weights.npz', **{export_name(k): v.detach().numpy() for k, v in model.p.items()})
    json.dump({**CFG, 'arch': 'olmoe', 'bos': BOS, 'pad': PAD, 'steps': step, 'tokens_seen': seen, 'seconds': round(time.time() - t0), 'seed': a.seed}, open(f'{a.out}/config.json', 'w'), indent=1)


def export_name(k):
    p = k.split('_', 2)
    return (f'blk.{p[1]}.{p[2]}' if p[0] == 'blk' else k) + '.weight'


def load_npz(path):
    model = OLMoE(CFG)
    z = np.load(path)
    model.load_state_dict({'p.' + k: torch.from_numpy(z[export_name(k)]) for k in model.p.keys()})
    return model.eval()


def cmd_eval(a):
    torch.set_num_threads(a.threads)
    tok = Tokenizer.load(f'{a.out}/tokenizer.json')
    tasks = Tasks(a.data, tok)
    model = load_npz(f'{a.out}/weights.npz')
    model.q4 = a.q4
    base = a.base or a.data
    pf = f'{base}/prose/{a.split}.txt'
    items = tasks.eval_items(a.split, base=base)
    res, raw = evaluate(model, tasks, items, (prose_ids(pf, tok), os.path.getsize(pf)), a.window)
    print(json.dumps(res, indent=1))
    if a.save:
        json.dump(res, open(a.save, 'w'), indent=1)
    if a.items:  # every prompt with its answers and this model's scores of them
        os.makedirs(a.items, exist_ok=True)
        for name, it in items.items():
            with open(f'{a.items}/{name}.jsonl', 'w', encoding='utf-8') as f:
                for (parts, answers, gold), sc in list(zip(it, raw[name]))[:a.max_items]:
                    f.write(json.dumps({'prompt': ''.join(parts), 'answers': [tok.decode(w) for w in answers], 'gold': gold,
                                        'scores': [round(x, 4) for x in sc]}, ensure_ascii=False) + '\n')


if __name__ == '__main__':
    ap = argparse.ArgumentParser()
    ap.add_argument('cmd', choices=('tokenizer', 'train', 'eval'))
    ap.add_argument('--data', required=True, help="folder with sms_spam, clinc150, banking77 and prose (see README.md)")
    ap.add_argument('--base', help='take the evaluated split from here instead')
    ap.add_argument('--out', default='run')
    ap.add_argument('--split', default='test')
    ap.add_argument('--save', help='write the results here')
    ap.add_argument('--items', help='write the evaluated prompts and scores into this folder')
    ap.add_argument('--max-items', type=int, default=1000)
    ap.add_argument('--window', type=int, default=256, help='tokens of prose scored at once')
    ap.add_argument('--q4', action='store_true')
    ap.add_argument('--seed', type=int, default=1)
    ap.add_argument('--threads', type=int, default=1)
    ap.add_argument('--steps', type=int, default=3000)
    ap.add_argument('--every', type=int, default=300)
    ap.add_argument('--tokens', type=int, default=2560)
    ap.add_argument('--lr', type=float, default=3e-3)
    ap.add_argument('--wd', type=float, default=0.1)
    ap.add_argument('--dropout', type=float, default=0.1)
    ap.add_argument('--lm-weight', type=float, default=0.25)
    ap.add_argument('--qat', type=float, default=0.15, help='last share of the steps trained through Q4_0 rounding')
    a = ap.parse_args()
    {'tokenizer': cmd_tokenizer, 'train': cmd_train, 'eval': cmd_eval}[a.cmd](a)
