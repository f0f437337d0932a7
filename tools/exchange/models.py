"""The architectures that tools/exchange/generate.py exports: small configurations, random weights.
SPDX-License-Identifier: MIT"""
import torch
import torch.nn as nn

TEXT = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37,
            max_position_embeddings=64)
ROWS = {}


def row(name):
    def add(make):
        ROWS[name] = make
        return make
    return add


def ids(batch, length=12):
    return torch.randint(3, 99, (batch, length))


def image(size):
    return lambda batch: {"pixel_values": torch.randn(batch, 3, size, size)}


def text(batch):
    return {"input_ids": ids(batch), "attention_mask": torch.ones(batch, 12, dtype=torch.int64)}


def masked(batch):
    given = text(batch)
    given["attention_mask"][0, 9:] = 0
    return given


def hugging(name, model, config, inputs, **more):
    """A model of transformers by the names of its classes."""
    def make():
        import transformers
        built = getattr(transformers, config)(**more)
        built.use_cache = False
        built.return_dict = True
        return getattr(transformers, model)(built), inputs
    ROWS[name] = make


hugging("bert", "BertModel", "BertConfig", masked, **TEXT)
hugging("distilbert", "DistilBertModel", "DistilBertConfig", masked, vocab_size=99, dim=32, n_layers=2, n_heads=4,
        hidden_dim=37, max_position_embeddings=64)
hugging("roberta", "RobertaModel", "RobertaConfig", masked, **TEXT)
hugging("xlm-roberta-cls", "XLMRobertaForSequenceClassification", "XLMRobertaConfig", masked, **TEXT)
hugging("mpnet", "MPNetModel", "MPNetConfig", masked, **TEXT)
hugging("electra", "ElectraModel", "ElectraConfig", masked, embedding_size=32, **TEXT)
hugging("bert-token-cls", "BertForTokenClassification", "BertConfig", masked, **TEXT)
hugging("gpt2", "GPT2LMHeadModel", "GPT2Config", text, vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64,
        bos_token_id=1, eos_token_id=2)
hugging("gpt-neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", text, **TEXT)
hugging("opt", "OPTForCausalLM", "OPTConfig", text, vocab_size=99, hidden_size=32, num_hidden_layers=2, ffn_dim=37,
        num_attention_heads=4, max_position_embeddings=64, word_embed_proj_dim=32)
CAUSAL = dict(TEXT, num_key_value_heads=2)
hugging("llama", "LlamaForCausalLM", "LlamaConfig", text, **CAUSAL)
hugging("mistral", "MistralForCausalLM", "MistralConfig", text, **CAUSAL)
hugging("qwen2", "Qwen2ForCausalLM", "Qwen2Config", text, **CAUSAL)
hugging("qwen3", "Qwen3ForCausalLM", "Qwen3Config", text, head_dim=8, **CAUSAL)
hugging("gemma2", "Gemma2ForCausalLM", "Gemma2Config", text, head_dim=8, **CAUSAL)
hugging("bloom", "BloomForCausalLM", "BloomConfig", text, vocab_size=99, hidden_size=32, n_layer=2, n_head=4)
hugging("mixtral", "MixtralForCausalLM", "MixtralConfig", text, num_local_experts=4, **dict(CAUSAL, intermediate_size=40))
T5 = dict(vocab_size=99, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4, decoder_start_token_id=0)
hugging("t5-enc", "T5EncoderModel", "T5Config", masked, **T5)
hugging("t5", "T5Model", "T5Config", lambda b: dict(text(b), decoder_input_ids=ids(b)), **T5)
hugging("bart", "BartModel", "BartConfig", lambda b: dict(text(b), decoder_input_ids=ids(b)), vocab_size=99,
        d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=37, decoder_ffn_dim=37, max_position_embeddings=64)
hugging("whisper", "WhisperModel", "WhisperConfig",
        lambda b: {"input_features": torch.randn(b, 8, 60), "decoder_input_ids": ids(b)}, vocab_size=99, d_model=32,
        encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=37,
        decoder_ffn_dim=37, num_mel_bins=8, max_source_positions=30, max_target_positions=20, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
hugging("wav2vec2", "Wav2Vec2Model", "Wav2Vec2Config", lambda b: {"input_values": torch.randn(b, 400)},
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37,
        conv_dim=(16, 16), conv_stride=(4, 4), conv_kernel=(8, 8), num_feat_extract_layers=2,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2)
PATCHES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, image_size=32,
               patch_size=8)
hugging("vit", "ViTModel", "ViTConfig", image(32), **PATCHES)
hugging("deit", "DeiTModel", "DeiTConfig", image(32), **PATCHES)
hugging("dinov2", "Dinov2Model", "Dinov2Config", image(32), hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, mlp_ratio=2, image_size=32, patch_size=8)
hugging("swin", "SwinModel", "SwinConfig", image(32), image_size=32, patch_size=2, embed_dim=16, depths=[1, 2],
        num_heads=[2, 2], window_size=4)
hugging("segformer", "SegformerForSemanticSegmentation", "SegformerConfig", image(64), num_encoder_blocks=2,
        depths=[1, 1], sr_ratios=[4, 2], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2],
        num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16)
hugging("convnext", "ConvNextModel", "ConvNextConfig", image(64), hidden_sizes=[8, 16], depths=[1, 1], num_stages=2)
hugging("resnet-hf", "ResNetModel", "ResNetConfig", image(64), embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1],
        layer_type="basic")
hugging("yolos", "YolosModel", "YolosConfig", image(32), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=37, image_size=[32, 32], patch_size=8, num_detection_tokens=3)
hugging("clip-text", "CLIPTextModel", "CLIPTextConfig", text, eos_token_id=2, **TEXT)
hugging("clip-vision", "CLIPVisionModel", "CLIPVisionConfig", image(32), **PATCHES)


def vision(name, size, section=None, **more):
    """A model of torchvision."""
    def make():
        import torchvision
        module = getattr(torchvision.models, section) if section else torchvision.models
        more.setdefault("weights", None)
        net = getattr(module, name)(**more)
        if hasattr(net, "heads"):
            nn.init.normal_(net.heads.head.weight, std=0.1)  # torchvision's are 0, and so would the loss be
        return net, lambda batch: {"x": torch.randn(batch, 3, size, size)}
    return make


for spec in (("tv.alexnet", "alexnet", 64), ("tv.vgg11", "vgg11", 32), ("tv.resnet18", "resnet18", 64),
             ("tv.mobilenet_v2", "mobilenet_v2", 64), ("tv.mobilenet_v3_small", "mobilenet_v3_small", 64),
             ("tv.efficientnet_b0", "efficientnet_b0", 64), ("tv.densenet121", "densenet121", 64),
             ("tv.squeezenet1_0", "squeezenet1_0", 64), ("tv.convnext_tiny", "convnext_tiny", 64),
             ("tv.swin_t", "swin_t", 64), ("tv.mnasnet0_5", "mnasnet0_5", 64), ("tv.vit_b_16", "vit_b_16", 224)):
    ROWS[spec[0]] = vision(spec[1], spec[2], num_classes=10)
ROWS["tv.googlenet"] = vision("googlenet", 64, num_classes=10, init_weights=True)
ROWS["tv.fcn_resnet50"] = vision("fcn_resnet50", 64, "segmentation", num_classes=3, weights_backbone=None)
ROWS["tv.deeplabv3_mnv3"] = vision("deeplabv3_mobilenet_v3_large", 64, "segmentation", num_classes=3,
                                   weights_backbone=None)


class Recurrent(nn.Module):
    def __init__(self, rnn, width):
        super().__init__()
        self.rnn = rnn
        self.fc = nn.Linear(width, 5)

    def forward(self, x):
        y, state = self.rnn(x)
        return self.fc(y), state


@row("lstm")
def lstm():
    net = Recurrent(nn.LSTM(6, 8, 2, batch_first=True, bidirectional=True), 16)
    return net, lambda batch: {"x": torch.randn(batch, 7, 6)}


@row("gru")
def gru():
    return Recurrent(nn.GRU(6, 8, batch_first=True), 8), lambda batch: {"x": torch.randn(batch, 7, 6)}


@row("mlp")
def mlp():
    net = nn.Sequential(nn.Linear(6, 16), nn.SiLU(), nn.Linear(16, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 3))
    return net, lambda batch: {"input": torch.randn(batch, 6)}


@row("mlp-f64")
def mlp_f64():
    net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3), nn.Softplus()).double()
    return net, lambda batch: {"input": torch.randn(batch, 6, dtype=torch.float64)}


class Transformer(nn.Module):
    """A pre-norm encoder layer of its own parts, with a causal mask and positions that are not saved."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(31, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))
        self.register_buffer("place", torch.randn(8, width), persistent=False)
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, ids):
        x = self.embed(ids) + self.scale * self.place
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.norm2(x))


@row("transformer")
def transformer():
    return Transformer(), lambda batch: {"ids": torch.randint(0, 31, (batch, 8))}


@row("cnn")
def cnn():
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3), nn.ReLU(),
                        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(24, 5))
    return net, lambda batch: {"input": torch.randn(batch, 1, 12, 12)}


class UNet(nn.Module):
    """Not a U-Net: each of the layers that such nets are made of, once."""
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.LeakyReLU(0.1, inplace=True),
                                  nn.Conv2d(8, 16, 3, stride=2, padding="valid"), nn.InstanceNorm2d(16), nn.PReLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.smooth = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.head = nn.Sequential(nn.Conv2d(8, 12, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x):
        y = self.down(x)
        z = self.up(y)
        return self.head(self.smooth(z) + torch.cat([z, z], 2).mean(2, keepdim=True).mean(3, keepdim=True))


class Flow(nn.Module):
    """torch.cond with each of two branches, in one another; while_loop; scan with a state; map."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, steps):
        from torch._higher_order_ops import while_loop
        from torch._higher_order_ops.map import map as torch_map
        from torch._higher_order_ops.scan import scan
        big = x.square().sum() > -1

        def inner(y):
            return torch.cond(big.logical_not(), lambda y: self.a(y).sin(), lambda y: self.b(y).tanh(), (y,))

        y = torch.cond(big, inner, lambda y: self.a(y) * 2, (x,)) + torch.cond(
            big.logical_not(), lambda y: self.b(y), lambda y: self.a(y).relu(), (x,))
        _, z = while_loop(lambda i, z: i < steps, lambda i, z: (i + 1, (z * 0.5 + i).cos()), (torch.tensor(0), x.detach()))
        state, seen = scan(lambda h, t: ((self.c(h) + t).tanh(), (h * t).sigmoid()), y, torch.stack([y, z, y * z]))
        return state, seen, torch_map(lambda t, w: (t @ w).exp(), y, self.b.weight)


class Branches(nn.Module):
    """torch.cond in torch.cond, on values and on their opposites; a result that both branches have as an argument."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        on, more = x.sum() > 0, x.square().sum() > 3

        def inner(x):
            return torch.cond(more, lambda x: (self.a(x), x.sin()), lambda x: (x.cos(), self.b(x)), (x,))

        y, z = torch.cond(on, inner, lambda x: (self.b(x).tanh(), x.clone()), (x,))
        more = more.logical_not()
        u, v = torch.cond(on.logical_not(), inner, lambda x: (self.b(x).tanh(), x.clone()), (x + y,))
        return y * z, u + v


class Calls(nn.Module):
    """Calls that no module makes: gradients of ATen, as exported training steps have them, and calls in place."""

    def __init__(self):
        super().__init__()
        self.a, self.scale = nn.Linear(4, 4), nn.Parameter(torch.rand(4) + 0.5)

    def in_place(self, x):
        """Results that are differentiated, too."""
        def of(name, *given):
            y = x.clone()
            z = getattr(y, name)(*given)
            return y * 1.5 + z
        calls = [("tril_", 1), ("triu_", -1), ("cumsum_", 0), ("cumprod_", 1), ("renorm_", 2, 0, 1.0), ("addmm_", x, x),
                 ("t_",), ("transpose_", 0, 1), ("swapdims_", 0, 1), ("fill_diagonal_", 2.0)]
        high = torch.cat([x, x, x])[:, :3].contiguous()
        return [of(*call) for call in calls] + [
            x.clone().unsqueeze_(1).cos(), x[:1].clone().squeeze_(0).cos(), high.fill_diagonal_(3.0, wrap=True),
            torch.special.xlogy(x.abs() + 1, 2.0), torch.special.xlogy(2.0, x.abs() + 1)]

    def gradients(self, x, g):
        op = torch.ops.aten
        image, planes, vector = x.reshape(1, 2, 4, 2), g.reshape(1, 4, 2, 2), x[0]
        kernel = x[:, :2].reshape(4, 2, 1, 1)
        pooled, at = op.max_pool2d_with_indices(image, [2, 2], [2, 2])
        _, mean, rstd = op.native_layer_norm(x, [4], vector, vector, 1e-5)
        _, means, rstds = op.native_group_norm(image, vector[:2], vector[:2], 1, 2, 8, 2, 1e-5)
        loss, classes, one = x.log_softmax(1), torch.tensor([0, 3, 1, -100]), g.sum()
        _, total = op.nll_loss_forward(loss, classes, vector.abs(), 1, -100)
        return [
            op.silu_backward(g, x), op.mish_backward(g, x), op.hardswish_backward(g, x), op.hardsigmoid_backward(g, x),
            op.gelu_backward(g, x), op.gelu_backward(g, x, approximate="tanh"), op.hardtanh_backward(g, x, -0.5, 0.5),
            op.threshold_backward(g, x, 0.1), op.softplus_backward(g, x, 2, 20), op.leaky_relu_backward(g, x, 0.1, False),
            op.elu_backward(g, 0.5, 2, 3, False, x), op.elu_backward(g, 0.5, 2, 3, True, op.elu(x, 0.5, 2, 3)),
            op.glu_backward(g[:, :2], x, 1), op.sigmoid_backward(g, x.sigmoid()), op.tanh_backward(g, x.tanh()),
            op._softmax_backward_data(g, x.softmax(1), 1, x.dtype), op._log_softmax_backward_data(g, loss, 1, x.dtype),
            op.mse_loss_backward(one, x, g, 1), op.smooth_l1_loss_backward(one, x, g, 1, 0.5),
            op.huber_loss_backward(one, x, g, 2, 0.5), op.binary_cross_entropy_backward(one, x.sigmoid(), g.sigmoid()),
            op.nll_loss_backward(one, loss, classes, vector.abs(), 1, -100, total), total,
            op.slice_backward(g, [4, 9], 1, 1, 8, 2), op.select_backward(g, [4, 3, 4], 1, 2),
            op.diagonal_backward(vector, [4, 4], 0, 0, 1), op.unfold_backward(g, [13], 0, 4, 3),
            op.embedding_dense_backward(g, torch.tensor([1, 0, 3, 1]), 5, 3, False),
            op.value_selecting_reduction_backward(vector, 1, torch.tensor([0, 3, 1, 1]), [4, 4], False),
            op.max_pool2d_with_indices_backward(pooled, image, [2, 2], [2, 2], [0, 0], [1, 1], False, at),
            op.max_unpool2d(pooled, at, [4, 2]), op.native_dropout_backward(g, x > 0, 2.0),
            op.avg_pool2d_backward(pooled, image, [2, 2], [2, 2], [0, 0], False, True, None),
            op._adaptive_avg_pool2d_backward(pooled, image),
            *op.convolution_backward(planes, planes[:, :2], kernel, [4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True] * 3),
            *op.native_layer_norm_backward(g, x, [4], mean, rstd, vector, vector, [True] * 3),
            *op.native_group_norm_backward(g.reshape(1, 2, 4, 2), image, means, rstds, vector[:2], 1, 2, 8, 2, [True] * 3),
            *op.native_batch_norm_backward(planes, planes * 2, vector, vector, vector.abs(), None, None, False, 1e-5, [True] * 3),
            op.add.out(x, g, out=torch.empty_like(x)), op.mm.out(x, g, out=torch.empty_like(x)),
            torch.searchsorted(x.sort()[0].double(), g), 1 << classes[:3], 9 >> classes[:3], *self.quantized(x, g)]

    def images(self, x, g):
        """Gradients of what resizes, pads, pools and samples images."""
        op, line, plane, space = torch.ops.aten, x.reshape(1, 4, 4), g.reshape(1, 1, 4, 4), x.reshape(1, 2, 2, 2, 2)
        results = []
        for name, of, to, *more in [
                ("upsample_nearest1d", line, [7]), ("upsample_nearest2d", plane, [6, 3], 1.6, 0.8),
                ("upsample_nearest3d", space, [3, 4, 5]), ("_upsample_nearest_exact1d", line, [6], 1.6),
                ("_upsample_nearest_exact2d", plane, [3, 7]), ("_upsample_nearest_exact3d", space, [3, 4, 5], 1.6, 2.0, 2.5),
                ("upsample_linear1d", line, [7], True), ("upsample_bilinear2d", plane, [6, 7], False, 1.6, 1.9),
                ("upsample_bicubic2d", plane, [6, 7], True), ("upsample_trilinear3d", space, [3, 4, 5], False, 1.6, 2.0, 2.5),
                ("_upsample_bilinear2d_aa", plane, [2, 3], False), ("_upsample_bicubic2d_aa", plane, [2, 3], False)]:
            results.append(getattr(op, name)(of, to, *more).cos())
            results.append(getattr(op, f"{name}_backward")(results[-1], to, of.shape, *more))
        for name, of, to in [("reflection_pad1d", line, [1, 3]), ("reflection_pad2d", plane, [1, 2, 0, 3]),
                             ("reflection_pad3d", space, [1, 1, 0, 1, 1, 0]), ("replication_pad1d", line, [2, 5]),
                             ("replication_pad2d", plane, [1, 2, 0, 3]), ("replication_pad3d", space, [1, 2, 0, 1, 3, 0])]:
            results.append(getattr(op, name)(of, to).cos())
            results.append(getattr(op, f"{name}_backward")(results[-1], of, to))
        pooled, at = op.adaptive_max_pool2d(plane, [2, 3])
        deep, inside = op.adaptive_max_pool3d(space, [1, 2, 2])
        fixed, grid = plane.detach(), line.detach()[..., :2].reshape(1, 4, 1, 2).sin()
        apart, slope, classes = g.detach()[:3], x.mean(1).reshape(4, 1), torch.tensor([0, 3, 1, 2])
        return results + [
            op.adaptive_max_pool2d_backward(pooled, plane, at), op.adaptive_max_pool3d_backward(deep, space, inside),
            op._adaptive_avg_pool3d_backward(deep, space), op._prelu_kernel(g, slope), *op._prelu_kernel_backward(x, g, slope),
            *op.grid_sampler_2d_backward(fixed[..., :1] * 2, fixed, grid, 0, 1, False, [True, True]),
            op._cdist_backward(apart[:, :3] + 1, apart, apart + 0.5, 2.0, op._cdist_forward(apart, apart + 0.5, 2.0, None)),
            op.soft_margin_loss_backward(g.sum(), x, fixed.view(4, 4).sign(), 1),
            op.multi_margin_loss_backward(g.detach().sum(), x.detach(), classes, 1, 1.0, None, 1)]

    def attention(self, x):
        op, (query, key, value) = torch.ops.aten, [x.reshape(1, 2, 4, 2) * k for k in (1.0, 0.5, 1.5)]
        for causal, options in (False, {}), (True, dict(scale=0.3)), (False, dict(attn_mask=x.reshape(1, 1, 4, 4))):
            call = op._scaled_dot_product_flash_attention_for_cpu
            out, sums = call(query, key, value, 0.0, causal, **options)
            back = op._scaled_dot_product_flash_attention_for_cpu_backward
            yield from (out, sums, *back(out.cos(), query, key, value, out, sums, 0.0, causal, **options))

    def lists(self, x, g):
        """As optimisers and clip_grad_norm_ call them."""
        a = torch._foreach_add([x, g[:2]], [g, x[:2]], alpha=2)
        b = torch._foreach_mul(a, 0.5)
        torch._foreach_mul_(b, [1.5, -1.0])
        torch._foreach_addcdiv_(b, a, [g.abs() + 1, x[:2].abs() + 1], 0.5)
        torch._foreach_lerp_(b, a, 0.25)
        norms = torch._foreach_norm(b)
        b = torch._foreach_mul([t.detach() for t in b], 1 / torch.stack(norms).norm().detach())  # torch has no gradient
        return [*b, *norms, *torch._foreach_pow(b, 2), *torch._foreach_sqrt(torch._foreach_abs(a)),
                *torch._foreach_maximum(a, b), *torch._foreach_clamp_max(a, [0.5, 1.5])]

    def quantized(self, x, g):
        """As PyTorch's quantisation writes it."""
        import torch.ao.quantization.fx._decomposed  # noqa: F401
        op, scales, zeros = torch.ops.quantized_decomposed, x[0].abs() / 30 + 0.01, torch.tensor([3, 0, -2, 1])
        whole = op.quantize_per_tensor(x, 0.02, 5, -128, 127, torch.int8)
        bytes_ = op.quantize_per_tensor.tensor(g, scales[:1], zeros[:1], 0, 255, torch.uint8)
        each = op.quantize_per_channel(x * 3, scales, zeros, 1, -128, 127, torch.int8)
        return [whole, bytes_, each, op.dequantize_per_tensor(whole, 0.02, 5, -128, 127, torch.int8),
                op.dequantize_per_tensor.tensor(bytes_, scales[:1], zeros[:1], 0, 255, torch.uint8),
                op.dequantize_per_channel(each, scales, zeros, 1, -128, 127, torch.int8)]

    def forward(self, x):
        square = (self.a(x).mean(0) + self.a.weight) * self.scale
        fixed = square.detach()
        more = self.images(square, square.flip(0) * 0.7) + self.lists(square, square.flip(0) * 0.7)
        more += self.attention(fixed)
        return self.in_place(square) + self.gradients(fixed, fixed.flip(0) * 0.7) + [y * 0.1 for y in more]


@row("calls")
def calls():
    return Calls(), lambda batch: {"x": torch.randn(batch, 4)}


@row("branches")
def branches():
    return Branches(), lambda batch: {"x": torch.randn(batch, 4)}


@row("flow")
def flow():
    return Flow(), lambda batch: {"x": torch.randn(batch, 4), "steps": torch.tensor(batch + 1)}


@row("unet-ish")
def unet():
    return UNet(), lambda batch: {"x": torch.randn(batch, 3, 9, 9)}


# What is committed: the same kinds, smaller.
TINY = dict(vocab_size=31, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=20,
            max_position_embeddings=16)


def short(batch):
    """A mask with padding at the end of the first row."""
    given = {"input_ids": torch.randint(3, 31, (batch, 6)), "attention_mask": torch.ones(batch, 6, dtype=torch.int64)}
    given["attention_mask"][0, 4:] = 0
    return given


hugging("tiny-bert", "BertModel", "BertConfig", short, **TINY)
hugging("tiny-llama", "LlamaForCausalLM", "LlamaConfig", short, num_key_value_heads=1, **TINY)
hugging("tiny-gpt2", "GPT2LMHeadModel", "GPT2Config", short, vocab_size=31, n_embd=16, n_layer=1, n_head=2,
        n_positions=16, bos_token_id=1, eos_token_id=2)
hugging("tiny-resnet", "ResNetModel", "ResNetConfig", image(16), embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1],
        layer_type="basic")
# Exported by earlier versions of torch, too (generate.py --old).
COMMITTED_OLD = "mlp mlp-f64 cnn lstm transformer".split()
COMMITTED = "mlp cnn lstm gru unet-ish tiny-bert tiny-llama tiny-gpt2 tiny-resnet mlp-f64 transformer flow branches calls".split()
COMMITTED_ONNX = "mlp cnn lstm gru unet-ish tiny-bert tiny-resnet".split()
# After run_decompositions().
COMMITTED_CORE = "unet-ish tiny-bert".split()

LISTED = ("bert distilbert roberta xlm-roberta-cls mpnet electra bert-token-cls gpt2 gpt-neox opt llama mistral qwen2 "
          "qwen3 gemma2 bloom mixtral t5-enc t5 bart whisper wav2vec2 vit deit dinov2 swin segformer convnext resnet-hf "
          "yolos clip-text clip-vision tv.alexnet tv.vgg11 tv.resnet18 tv.mobilenet_v2 tv.mobilenet_v3_small "
          "tv.efficientnet_b0 tv.densenet121 tv.squeezenet1_0 tv.googlenet tv.convnext_tiny tv.swin_t tv.vit_b_16 "
          "tv.mnasnet0_5 tv.fcn_resnet50 tv.deeplabv3_mnv3 lstm gru mlp unet-ish").split()
assert set(LISTED) | set(COMMITTED) == set(ROWS), (set(LISTED) | set(COMMITTED)) ^ set(ROWS)
