"""Command lines with secrets, and ordinary ones that resemble them.

In `SECRET`, what is between « and » is to be masked.
"""

from __future__ import annotations

SECRET = r"""
./app --api_key='«hunter two x»' --n 4
./app "--api-key=«hunter two x»" --n 4
./app --password "«hunter "two x»" --n 4
./app --password '«it'"'"'s»' --n 4
./app "--token=«c "d e»" q"uote s'q --n 4
./app --API-KEY=«12345»
./app /password:«hunter2x» /n:4
./app token=«hunter2x» n=4
./app --password «123456» --password=«123456»
./app --password=«a&b;c,d=e» --n 4
./app --password «pa"ss» --n 4
./app --db-pass «hunter» --n 4 --pass «hunter2x»
./app --passphrase "«correct horse battery staple»" --n 4
./app --pin «1234» --otp «000000» --mfa-code «123456»
./app --password=«-hunter2x9» --n 4 --password «pässwörd» --n 4
./app password «hunter2x» 4
./app --private-key «MIIEvQIBADANBg» --encryption-key «00112233aabbccdd»
./app --license-key «AAAA-BBBB-CCCC»
./app --cookie «sessionid=abc»
./app --credentials «bob:hunter2x»
./app --auth «bob:hunter2x»
./app --auth «a1B2c3D4e5» --key «a1B2c3D4e5F6g7H8i9»
./app --session «a1B2c3D4e5F6g7H8i9» --tokens «a1B2c3D4e5F6g7H8i9»
AWS_SECRET_ACCESS_KEY=«wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY» ./app 4
AWS_ACCESS_KEY_ID=«AKIAIOSFODNN7EXAMPLE» ./app 4
env OPENAI_API_KEY=«hunter2x» HF_TOKEN='«hunter 2x»' ./app 4
MYSQL_PWD=«hunter2x» ./app
export WANDB_API_KEY=«0123456789abcdef0123456789abcdef01234567» && ./app
bash -c "export API_KEY=«hunter2x;» ./app --token «second» --n 4"
sh -lc "./app --password «hunter2x» --n 4"
curl -u bob:«hunter2x» https://host/x
curl --user «bob:hunter2x» https://host/x
curl --proxy-user "«bob:hunter two»" https://host/x
curl -H "X-Api-Key: «hunter2x»" -H 'Authorization: Bearer «hunter2x»' https://host
curl -H "Authorization: «hunter2x»" https://host
curl -H "Authorization: Basic «Ym9iOmh1bnRlcg==»" https://host
curl -H "Cookie: «a=b; c=d»" https://host
curl https://«bob:hunter2x»@host/x?n=4
curl https://host/x?access_token=«hunter2x»&n=4
curl "https://host/x?n=4&apikey=«hunter2x»&m=5#top"
curl https://host/x?url=https%3A%2F%2Fh%2F%3Faccess%5Ftoken%3D«hunter2x»%26n%3D4
curl https://host/x?q=%7B%22api_key%22%3A%22«hunter2x»%22%7D
./app --db-url postgres://«u:p»@h/db --n 4
./app --db-url postgres://«u:p/w#x@y»@h/db --n 4
./app --redis redis://«:hunter2x»@h:6379/0
./app --git https://«ghp_0123456789abcdefghij0123456789abcdef»@github.com/a/b
./app --conn "Server=h;User=sa;Password=«hunter2x»;Database=d"
./app --conn Server=h;Pwd=«hunter2x»;Database=d
./app --config api_key=«hunter2x,size=4»
./app --config=api_key=«hunter2x»,size=4
./app --json '{"db": {"password": "«hunter \" 2x»", "n": 4}}'
./app --json {api_key:«hunter2x»,n:4
./app --yaml "password: «hunter2x»"
mysql -u root -p«hunter2x» db
mysql -uroot -p «hunter2x» db
sshpass -p «12345» ssh host ./app
docker login -u bob -p «hunter2x» host
redis-cli -a «hunter2x» ping
./app -u root -p «hunter2x» -n 4
wandb login «c9f0f895fb98ab9159f51fd0297e236d4a1b2c3d»
./app --model m «sk-proj-Ab12cd34ef56GH78ijKL90mnOP»
./app «ghp_0123456789abcdefghij0123456789abcdef»
./app «hf_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh»
./app «xoxb-123456789012-abcdefghijkl»
./app «glpat-0123456789abcdefghij»
./app «eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl»
./app «npm_0123456789abcdefghij0123456789abcdef»
./app «AIzaSyA1234567890abcdefghijklmnopqrstu»
./app «SG.0123456789abcdefghij.0123456789abcdefghij» 4
./app --cert "«-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END RSA PRIVATE KEY-----»" 4
./app «kX9vQ2mZ7rT4wY8pL3nB6cF1dG5hJ0sA» 4
./app --run «kX9vQ2mZ7rT4wY8pL3nB6cF1dG5hJ0sA» 4
./app \nexport password=«hunter2x» \n./b
./app —token=«hunter2x»
openssl enc -passin «pass:hunter2x» -in x
python -c "import os; os.environ['DB_PASSWORD']='«hunter2x»'; main()"
python -c 'os.environ["API_KEY"] = "«hunter2x»"; main()'
python -c "os.environ.setdefault('API_KEY', '«hunter2x»')"
aws configure set aws_secret_access_key «hunter2x»
aws configure set aws_secret_access_key «hunter» --profile x
git config user.password «hunter2x»
git config --global user.password «hunter»
npm config set //r/:_authToken «hunter2x»
./app db.password «hunter2x» 4
sshpass -p«hunter2x» ssh h ./app
./app --proxy «bob:hunter2x»@proxy:3128
./app --proxy=«bob:hunter2x»@proxy --n 4
curl -x «u:p»@h:1 https://host
./app --dsn "«u:hunter2x»@tcp(host:3306)/db"
./app «bob:hunter2x»@host:5432/db
./app «bob:hun@ter2x»@host:5432/db
./app --login «bob:hunter2x»
./app --oauth «hunter2x»
smbclient //h/s -U u%«hunter2x»
smbclient -U 'u%«hunter2x»' //h/s
curl -U bob:«hunter2x» -x proxy:3128 https://host
curl -ubob:«hunter2x» host
curl https://hooks.slack.com/services/«T00000000/B00000000/aB3dE5fG7hJ9kL1mN3pQ5rS7»
curl https://discord.com/api/webhooks/«123456789/abcdef» -d x
./app --db-url 'mysql://«root:hun ter2x»@h/db'
./app "--db-url=mysql://«root:hun ter2x»@h/db" --n 4
mysql -b -p «hunter2x» db
mysql -U -p «hunter2x» db
zip -P«hunter2x» a.zip b
unzip -P «hunter2x» a.zip
openssl enc -k «hunter2x» -in x
openssl enc -aes-256-cbc -K «00112233445566778899aabbccddeeff» -in x
sqlplus scott/«tiger»@orcl
sqlplus -s scott/«tiger» @run.sql
./app scott/«tiger»@//host:1521/orcl
curl -b «'JSESSIONID=0123456789abcdef'» host
curl -b «session=abc» host
"""

ORDINARY = r"""
ncu --set full -o report ./app 4
ncu -k regex:token_mixer --launch-count 2 ./app
ncu -k "regex:^(secret_kernel|key::hash)$" ./app
ncu --kernel-name password_hash_kernel -c 1 ./app
ncu --kernel-name _ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13BinaryFunctorIfffEE ./app
ncu --metrics sm__sass_thread_inst_executed_op_fp32_pred_on.sum,l1tex__t_sectors.sum ./app
ncu --section SpeedOfLight_HierarchicalTensorRooflineChart --section MemoryWorkloadAnalysis_Tables ./app
ncu --nvtx --nvtx-include "decode@token:3/" ./app
./app --tokens 4096 --max-tokens=512 --max_new_tokens 128 --token 4096 --tokens-per-batch=16k
./app --num-token 8 --n_token=4 --tokenizer gpt2
./app --tokenizer-path ./tok/tokenizer.json
./app --pad-token [PAD] --eos-token </s> --bos-token <s>
./app --token <|endoftext|>
./app --token-type bpe --token-dim 64 --eos-token-id 50256 --use-token true
./app --key-size 128 --key-bits=256 --keys 1000000 --values 1000000 --hash-keys=1000000
./app --key int32 --value float --key-type uint64 --sort-key name --primary-key id --aes-key 128
./app --kv-heads 8 --keyframe 30 --password-length 8
./app --password-count=1000000 --passwords 1000000
./app --password-file /etc/pw.txt
./app --secret-sharing-rounds 4 --secrets 64 --passes 3 --pass 2 --pass forward --dtype bf16
./app --pass=bwd --render-pass shadow --pw 1 --ph 1 --pin 1 --pin-memory true
./app --pin-threads 4 --pinned --auth none --author bob --authors 4
./app --private-key ~/.ssh/id_rsa
./app --credentials /home/bob/creds.json
./app --session 4 --session-name warm --signature f32 --sig 4 --pattern stride --pat gather
./app --code fp16 --decode 4 --encode --user bob --login-shell
./app --u 4 -p 8 -P 2 -a 3 -w 64
python -u train.py -p bf16
python -u C:\work\train.py -p fp16
docker run -u 1000:1000 image ./app
PWD=/home/bob OLDPWD=/tmp ./app
CUDA_VISIBLE_DEVICES=0,1 OMP_NUM_THREADS=8 ./app
./app https://host:8080/a@b/model.bin
./app --url http://host/x?n=4&size=16
./app git@github.com:org/repo.git
./app /data/models/kX9vQ2mZ7rT4wY8pL3nB6cF1dG5hJ0sA/weights.bin
./app --commit 0123456789abcdef0123456789abcdef01234567
./app --sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
./app --id 123e4567-e89b-12d3-a456-426614174000
./app --shape 4096x4096x4096 --dims 1,2,3,4,5,6,7,8,9,10,11,12
./app --algo conv2dForwardImplicitGemmNhwcFp16TensorOp --layout NCHWtoNHWC
./app --kernel cutlass_80_tensorop_h16816gemm_256x128_32x3_nn_align8
mpiexec -n 4 -ppn 2 ./app
./app --pwm 4 --spin 1000 --shopping cart --key name --key 4096 --key user_id --key created_at_2
./app --place layer:3@gpu:0 --map op:conv@gpu:1
docker run registry/image:v1@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
npm install npm:react@18.2.0 ./app
docker login registry:5000
./app --login host:22
./app --nvtx layer:attn@rank:12 image:tag@sha256:123abc4298fc1c149afbf4c8996fb924
./app "amqp://h:5672?x=a b@c"
./app --model-url hf:org/model@main --data file:a/b@v1:20
curl -b cookies.txt -k https://host:8080
./app -b 64 -k 3 -K 128 -U 4 -x 16
./app -b size=4 -k sort=1
openssl speed -p 4 -seconds 3
./app --render-pass shadow2d --opt-pass unroll16x --mlir-pass convert-linalg-to-gpu4
ncu -k hash_password app2 --n 4
ncu --kernel-name regex:compute_secret ./app2
./hash_password 128 ./make_token fp16
./app per_token int8 decode_token fp8_e4m3 --quant per_token
./app "http://host:8080 for bob@host"
./app models/llama@main data/train@2024
python -c "x['n']=4; y['tokens'] = 512; z['key']='q'"
./app --oauth google --auth-mode oauth2
zip -r out.zip folder -x *.tmp
./app a:b c:d@e --ratio 1:2
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()
